"""Ten recipes of fine-tuning as they are published: their arguments alone, written anew, on small models and data. None is edited to run here."""
import json
import random
import re
import shlex

from common import CIFAR_NAMES, Case, main, make_rows, options, run, write_cifar, write_jsonl

# Lines of scripts for sequence classification: arguments as on a command line.
SCRIPTS = {
    "sequence classification": """
        --do_train --do_eval --max_seq_length 128 --per_device_train_batch_size 32 --learning_rate 2e-5 --num_train_epochs 3
        --overwrite_output_dir""",
    "a long run of an older version": """
        --do_train --do_eval --evaluation_strategy steps --eval_steps 500 --per_gpu_train_batch_size 8 --gradient_accumulation_steps 4
        --learning_rate 3e-5 --weight_decay 0.01 --adam_epsilon 1e-6 --max_grad_norm 1.0 --num_train_epochs 2 --warmup_steps 10
        --logging_dir ./logs --logging_steps 50 --save_steps 500 --save_total_limit 2 --no_cuda False --local_rank -1 --fp16_opt_level O1
        --seed 42 --dataloader_num_workers 2 --disable_tqdm True --past_index -1 --prediction_loss_only False""",
    "mixed precision, by shares": """
        --bf16 --optim adamw_torch_fused --lr_scheduler_type cosine --warmup_ratio 0.1 --label_smoothing_factor 0.1
        --per_device_train_batch_size 8 --per_device_eval_batch_size 16 --gradient_accumulation_steps 2 --num_train_epochs 2
        --eval_strategy steps --eval_steps 0.2 --save_strategy steps --save_steps 0.2 --logging_steps 0.05 --logging_first_step
        --load_best_model_at_end --metric_for_best_model eval_f1 --greater_is_better True --save_total_limit 1 --group_by_length
        --torch_compile --tf32 True --ddp_find_unused_parameters False --report_to none --data_seed 7""",
}

# Files of arguments, as training scripts read them.
FILES = {
    "text classification, by epochs": """
        learning_rate: 2.0e-5
        per_device_train_batch_size: 16
        per_device_eval_batch_size: 16
        num_train_epochs: 2
        weight_decay: 0.01
        eval_strategy: epoch
        save_strategy: epoch
        load_best_model_at_end: true
        push_to_hub: false
        """,
    "a course's first run": """
        eval_strategy: epoch
        per_device_train_batch_size: 8
        per_device_eval_batch_size: 8
        learning_rate: 5.0e-5
        num_train_epochs: 3
        logging_strategy: epoch
        report_to: all
        seed: 42
        """,
    "a handbook of supervised training": """
        bf16: true
        do_eval: true
        eval_strategy: "no"
        gradient_accumulation_steps: 1
        gradient_checkpointing: true
        gradient_checkpointing_kwargs:
          use_reentrant: False
        hub_model_id: someone/some-model
        hub_strategy: every_save
        learning_rate: 2.0e-05
        log_level: info
        logging_steps: 5
        logging_strategy: steps
        lr_scheduler_type: cosine_with_min_lr
        lr_scheduler_kwargs:
          min_lr_rate: 0.1
        max_steps: -1
        num_train_epochs: 1
        overwrite_output_dir: true
        per_device_eval_batch_size: 8
        per_device_train_batch_size: 16
        push_to_hub: false
        remove_unused_columns: true
        report_to:
        - tensorboard
        save_strategy: "no"
        save_total_limit: null
        seed: 42
        warmup_ratio: 0.1
        """,
}

LORA = """
    learning_rate: 1.0e-3
    per_device_train_batch_size: 32
    per_device_eval_batch_size: 32
    num_train_epochs: 2
    weight_decay: 0.01
    eval_strategy: epoch
    save_strategy: epoch
    load_best_model_at_end: true
    label_names: [labels]
    lora:
      task_type: SEQ_CLS
      inference_mode: false
      r: 16
      lora_alpha: 16
      lora_dropout: 0.1
      bias: all
      target_modules: [query, value]
      modules_to_save: [classifier]
    """

PAGED = """
    per_device_train_batch_size: 4
    gradient_accumulation_steps: 4
    optim: paged_adamw_8bit
    learning_rate: 0.0002
    lr_scheduler_type: constant
    warmup_ratio: 0.03
    max_grad_norm: 0.3
    max_steps: 6
    weight_decay: 0.0
    adam_beta2: 0.999
    bf16: true
    gradient_checkpointing: true
    group_by_length: true
    logging_steps: 10
    save_strategy: steps
    save_steps: 500
    save_total_limit: 40
    data_seed: 42
    seed: 0
    dataloader_num_workers: 3
    remove_unused_columns: false
    ddp_find_unused_parameters: false
    report_to: none
    lora:
      r: 64
      lora_alpha: 16
      lora_dropout: 0.1
      bias: none
      use_rslora: true
      target_modules: all-linear
    """

TOKENS = """--do_train --do_eval --per_device_train_batch_size 8 --per_device_eval_batch_size 8 --num_train_epochs 2 --learning_rate 5e-5
    --evaluation_strategy epoch --save_strategy epoch --load_best_model_at_end --metric_for_best_model eval_f1 --overwrite_output_dir
    --logging_strategy steps --logging_steps 25 --optim adamw_8bit"""

IMAGES = {"remove_unused_columns": False, "eval_strategy": "epoch", "save_strategy": "epoch", "learning_rate": 5e-5,
          "per_device_train_batch_size": 16, "gradient_accumulation_steps": 4, "per_device_eval_batch_size": 16, "num_train_epochs": 3,
          "warmup_steps": 0.1, "logging_steps": 10, "load_best_model_at_end": True, "metric_for_best_model": "accuracy", "push_to_hub": False,
          "lr_scheduler_type": "polynomial", "lr_scheduler_kwargs": {"power": 2.0}, "dataloader_pin_memory": False, "run_name": "images"}


def undent(text):
    lines = [line for line in text.splitlines() if line.strip()]
    least = min(len(line) - len(line.lstrip()) for line in lines)
    return "".join(line[least:] + "\n" for line in lines)


class Recipes(Case):
    rows = 48

    def trained(self, name, *words, file=None, **data):
        """Runs a recipe; the model, the data and the place of the run are given beside it."""
        out = self.folder / re.sub(r"\W+", "_", name)
        where = dict(model="bert-tiny", train_file=self.train_file, vocab_size=400, threads=2, memory="1GiB", output_dir=out)
        where.update(data)
        more = []
        if file is not None:
            path = self.folder / f"{out.name}.yaml"
            path.write_text(file)
            more = ["-c", path]
        done = run("train", *more, *words, *options(**{key: value for key, value in where.items() if value is not None}))
        self.assertEqual(done.returncode, 0, f"{name}: {done.stderr}")
        self.assertTrue((out / "last").is_dir())
        return out, done

    def test_scripts_for_sequences(self):
        for name, words in SCRIPTS.items():
            with self.subTest(name):
                out, done = self.trained(name, *shlex.split(words), validation_file=self.valid_file)
                self.assertTrue((out / "best").is_dir())
                self.assertIn("train_batch_size", done.stderr)

    def test_files_for_sequences(self):
        for name, text in FILES.items():
            with self.subTest(name):
                out, _ = self.trained(name, file=undent(text), validation_file=self.valid_file)
                self.assertTrue((out / "best").is_dir())

    def test_adapters(self):
        base, _ = self.trained("base", *shlex.split(SCRIPTS["sequence classification"]), validation_file=self.valid_file)
        data = dict(model=base / "best", vocab_size=None, validation_file=self.valid_file)
        out, _ = self.trained("low rank", file=undent(LORA), **data)
        config = json.loads((out / "best/adapter_config.json").read_text())
        self.assertEqual((config["r"], config["bias"], config["modules_to_save"]), (16, "all", ["classifier"]))
        out, done = self.trained("low rank of all maps, few bytes", file=undent(PAGED), **data)
        config = json.loads((out / "last/adapter_config.json").read_text())
        self.assertEqual((len(config["target_modules"]), config["use_rslora"]), (13, True))
        self.assertIn("lr_scheduler_type constant rises first, as constant_with_warmup does", done.stderr)

    def test_tokens(self):
        generator = random.Random(3)
        rows = [{"tokens": row["text"].split(), "ner_tags": [generator.choice(["O", "B-X", "I-X"]) for _ in row["text"].split()]}
                for row in make_rows(self.rows, longest=8)]
        for path, part in ((self.train_file, rows[8:]), (self.valid_file, rows[:8])):
            write_jsonl(path, part)
        out, _ = self.trained("tokens", *shlex.split(TOKENS), validation_file=self.valid_file, task="token_classification",
                              text_column="tokens", label_column="ner_tags", max_seq_length=24)
        self.assertIn("eval_f1", (out / "evaluations.jsonl").read_text())

    def test_images(self):
        folder = write_cifar(self.folder / "cifar", data_batch_1=96, test_batch=32)
        out, _ = self.trained("images", file=json.dumps(IMAGES), model="resnet-8", vocab_size=None, train_file=folder,
                              validation_file=folder / "test_batch.bin")
        self.assertEqual(len(json.loads((out / "last/config.json").read_text())["id2label"]), len(CIFAR_NAMES))


if __name__ == "__main__":
    main()
