"""scikit-learn's estimators: what they take, and scikit-learn's own checks on numbers."""
import contextlib
import copy
import pathlib
import pickle
import tempfile
import unittest
import warnings

import common
import snug

try:
    import numpy as np
    import sklearn
except ImportError:
    sklearn = None

TINY = dict(memory="1GiB", threads=2, vocab_size=300, max_seq_length=32, train_batch_size=8, learning_rate=1e-3, seed=3)


class Estimators(unittest.TestCase):
    def setUp(self):
        if sklearn is None:
            common.not_run(self, "scikit-learn is not installed")
        from snug.sklearn import SnugClassifier, SnugRegressor

        self.Classifier, self.Regressor = SnugClassifier, SnugRegressor
        warnings.simplefilter("ignore", snug.Warned)
        rows = common.make_rows(120)
        self.texts, self.labels = [row["text"] for row in rows], np.array([row["label"] for row in rows])
        self.lengths = np.array([len(text) for text in self.texts]) / 40

    def check_copies(self, model, X):
        wanted = model.predict(X)
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            np.testing.assert_array_equal(other.predict(X), wanted)
        self.assertFalse(hasattr(sklearn.base.clone(model), "learner_"))

    def test_texts(self):
        model = self.Classifier(**TINY, num_train_epochs=6)
        self.assertIs(model.fit(self.texts, self.labels), model)
        self.assertEqual(model.classes_.tolist(), ["animal", "food", "tool"])
        self.assertGreater(model.score(self.texts, self.labels), 0.8)
        shares = model.predict_proba(self.texts)
        np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
        # The verbs beside it: the same weights.
        with tempfile.TemporaryDirectory() as folder:
            summary = snug.train(TINY, model="bert-tiny", num_train_epochs=6, validation_split=0, output_dir=folder, task="classification",
                                 train_file=[{"text": text, "label": label} for text, label in zip(self.texts, self.labels.tolist())])
            self.assertEqual(model.learner_.summary["weights_sha256"], summary["weights_sha256"])
        for X in (np.array(self.texts), np.array(self.texts, dtype=object), np.array(self.texts)[:, None], tuple(self.texts)):
            np.testing.assert_array_equal(model.predict_proba(X), shares)
        self.check_copies(model, self.texts)
        # Sums from another start, and all that is said of a row.
        before = model.predict_proba(self.texts)
        model.partial_fit(self.texts[:24], self.labels[:24])
        self.assertFalse(np.array_equal(model.predict_proba(self.texts), before))
        self.assertGreater(model.score(self.texts, self.labels), 0.8)

    def test_columns_of_tables_and_datasets_are_texts(self):
        model = self.Classifier(**TINY, max_steps=1).fit(self.texts, self.labels)
        wanted = model.predict_proba(self.texts)
        columns = {}
        with contextlib.suppress(ImportError):
            import pyarrow

            columns |= {"chunked": pyarrow.chunked_array([self.texts[:50], self.texts[50:]]), "array": pyarrow.array(self.texts)}
        with contextlib.suppress(ImportError):
            import datasets

            columns["dataset"] = datasets.Dataset.from_dict({"text": self.texts})["text"]
        if not columns:
            common.not_run(self, "neither PyArrow nor datasets is installed")
        for name, X in columns.items():
            with self.subTest(name):
                np.testing.assert_array_equal(model.predict_proba(X), wanted)
                np.testing.assert_array_equal(sklearn.base.clone(model).fit(X, self.labels).predict_proba(X), wanted)

    def test_what_is_neither_texts_nor_numbers_is_said(self):
        class Frame(dict):  # as pandas' and polars' are
            columns = property(list)

            def to_numpy(self):
                return np.array([column.to_list() for column in self.values()], dtype=object).T

        class Column(list):
            def to_list(self):
                return list(self)

        y = [0, 1]
        beside = Frame(film=Column(["a", "b"]), year=Column([1990, 2000]), length=Column([90.5, 80.0]))
        model = self.Classifier(**TINY, max_steps=1)
        for X, said in ((beside, "X has texts \\('film'\\) beside other columns \\('year', 'length'\\)"), ([b"a", b"b"], "bytes where texts belong"),
                        (np.array([b"a", b"b"]), "bytes where texts belong"), (np.array([b"a", "b"], dtype=object), "bytes where texts belong"),
                        (iter(["a", "b"]), "give list\\(X\\)"), ((each for each in "ab"), "give list\\(X\\)"), ({"a", "b"}, "give list\\(X\\)")):
            with self.assertRaisesRegex(ValueError, said):
                model.fit(X, y)
        pictures = np.zeros((2, 8, 8, 3), np.uint8)
        for X, said in ((pictures / 255, r'give uint8, such as \(255 \* X\).astype\("uint8"\)'), (pictures.transpose(0, 3, 1, 2), r"not \(3, 8, 8\): give X.transpose\(0, 2, 3, 1\)")):
            with self.assertRaisesRegex(ValueError, said):
                model.fit(X, y)
        with self.assertRaisesRegex(ValueError, "y has -1e\\+300; it is learned in f32"):
            self.Regressor(memory="1GiB", threads=1).fit(np.eye(2), [1.0, -1e300])

    def test_classes_that_are_numbers_or_not_there_yet(self):
        numbers = np.searchsorted(["animal", "food", "tool"], self.labels) * 3 - 1  # -1, 2, 5
        model = self.Classifier(**TINY, num_train_epochs=3).fit(self.texts, numbers)
        self.assertEqual(model.predict(self.texts).dtype, numbers.dtype)
        self.assertLessEqual(set(model.predict(self.texts)), {-1, 2, 5})
        for first in (0, 1):  # as ids are, and one beside them
            model.fit(self.texts[:40], (numbers[:40] + 1) // 3 + first)
            model.partial_fit(self.texts[:16], (numbers[:16] + 1) // 3 + first)
            self.assertLessEqual(set(model.predict(self.texts)), {first, first + 1, first + 2})
        model = self.Classifier(**TINY, max_steps=3)
        model.partial_fit(self.texts[:9], self.labels[:9], classes=["animal", "food", "tool", "zoo"])
        self.assertEqual(model.predict_proba(self.texts[:5]).shape, (5, 4))
        model.partial_fit(["lion", "whale"] * 4, ["zoo"] * 8)
        with self.assertRaisesRegex(ValueError, "none of the classes"):
            model.partial_fit(["a"], ["plant"])

    def test_adapters_are_trained_further(self):
        keys = {key: value for key, value in TINY.items() if key != "vocab_size"}
        lora = {"match": "*.query.weight", "r": 2}
        with tempfile.TemporaryDirectory() as folder:
            snug.train(TINY, model="bert-tiny", max_steps=2, validation_split=0, output_dir=folder, train_file=[{"text": text, "label": label} for text, label in zip(self.texts, self.labels.tolist())])
            model = self.Classifier(pathlib.Path(folder, "last"), **keys, max_steps=2, lora=lora).fit(self.texts, self.labels)
            before = model.predict_proba(self.texts)
            model.partial_fit(self.texts, self.labels)
            self.assertFalse(np.array_equal(model.predict_proba(self.texts), before))
            with self.assertRaisesRegex(ValueError, "lora"):
                model.set_params(lora=dict(lora, r=4)).partial_fit(self.texts, self.labels)
        # On what was learned without them they are merged, since nobody else has it.
        model = self.Classifier(**TINY, max_steps=2).fit(self.texts, self.labels).set_params(lora=lora)
        for _ in range(2):
            before = model.predict_proba(self.texts)
            model.partial_fit(self.texts, self.labels)
            self.assertFalse(np.array_equal(model.predict_proba(self.texts), before))
        self.check_copies(model, self.texts)

    def test_classes_that_are_none(self):
        X, y = np.arange(24.0).reshape(12, 2), np.arange(12) % 2
        keys = dict(memory="1GiB", threads=1, num_train_epochs=1)
        for classes, part in (([], "list of labels"), (2, "list of labels"), ({0, 1}, "list of labels"), ([0, 1, np.nan], "not finite"), (["a", 1, None], "none of the classes|no order"),
                              (np.array([0, "a"], dtype=object), "no order")):
            with self.assertRaisesRegex(ValueError, part):
                self.Classifier(**keys).partial_fit(X, y, classes=classes)
        for labels in (np.array(["a", 1] * 6, dtype=object), np.array(["a", None] * 6, dtype=object)):
            with self.assertRaisesRegex(ValueError, "no order"):
                self.Classifier(**keys).fit(X, labels)
        with self.assertRaisesRegex(ValueError, "none of the classes"):
            self.Classifier(**keys).partial_fit(X, np.array(["a", "b"] * 6, dtype=object), classes=[0, 1])
        # What comes later cannot be another set, and a fit that fails leaves what was learned.
        model = self.Classifier(**keys).partial_fit(X, y, classes=[1, 0])
        model.partial_fit(X, y, classes=[0, 1])
        with self.assertRaisesRegex(ValueError, "and was"):
            model.partial_fit(X, y, classes=[0, 1, 2])
        with self.assertRaises(snug.Error):
            model.set_params(learning_rate=-1.0).fit(X, y + 7)
        self.assertLessEqual(set(model.predict(X)), {0, 1})
        with self.assertRaisesRegex(ValueError, "masked"):
            model.predict(np.ma.masked_array(X, X > 3))
        images = np.zeros((4, 8, 8, 3), np.uint8)
        for name in (".hidden", "n" * 256, "\ud800"):
            with self.assertRaisesRegex(ValueError, "class of images"):
                self.Classifier(memory="1GiB", threads=1, max_steps=1).fit(images, np.array(["a", name] * 2, dtype=object))
        with self.assertRaisesRegex(ValueError, "no pixels"):
            self.Classifier(memory="1GiB").fit(images[:, :0], ["a", "b"] * 2)
        with self.assertRaisesRegex(ValueError, "no rows"):
            self.Classifier(**TINY, max_steps=1).fit(self.texts, self.labels).predict([])

    def test_pairs_and_weights(self):
        pairs = np.array([self.texts, self.texts[::-1]]).T
        model = self.Classifier(**TINY, max_steps=4).fit(pairs, self.labels)
        np.testing.assert_array_equal(model.predict_proba(pairs.tolist()), model.predict_proba(pairs))
        with self.assertRaisesRegex(ValueError, "fitted on pairs"):
            model.predict(self.texts)
        # Rows of no weight are as good as none: the labels of the others are learned.
        weights = (self.labels == "food").astype(float)
        model = self.Classifier(**TINY, num_train_epochs=3).fit(self.texts, self.labels, sample_weight=weights)
        self.assertGreater((model.predict(self.texts) == "food").mean(), 0.95)

    def test_regression(self):
        model = self.Regressor(**dict(TINY, learning_rate=3e-3), num_train_epochs=8).fit(self.texts, self.lengths)
        self.assertGreater(model.score(self.texts, self.lengths), 0.3)
        self.assertEqual(model.predict(self.texts).shape, (120,))
        both = np.stack([self.lengths, -self.lengths], axis=1)
        model = self.Regressor(**TINY, max_steps=3).fit(self.texts, both)
        self.assertEqual(model.predict(self.texts).shape, (120, 2))
        self.check_copies(model, self.texts)
        model.partial_fit(self.texts, both)

    def test_images(self):
        generator = np.random.default_rng(1)
        labels = np.arange(60) % 3
        images = generator.integers(0, 60, (60, 24, 20, 3), dtype=np.uint8)
        images[np.arange(60), :, :, labels] += 150
        keys = dict(model="resnet-8", memory="1GiB", threads=2, train_batch_size=12, learning_rate=0.05, optim="sgd", momentum=0.9, num_train_epochs=6, seed=3)
        model = self.Classifier(**keys).fit(images, labels)
        self.assertGreater(model.score(images, labels), 0.9)
        shares = model.predict_proba(images)
        np.testing.assert_array_equal(model.predict_proba(list(images)), shares)
        # As files, written by another program.
        with tempfile.TemporaryDirectory() as folder:
            from snug.sklearn._rows import _png

            files = []
            for i, image in enumerate(images):
                files.append(pathlib.Path(folder, f"{60 - i}.png"))
                files[-1].write_bytes(_png(image))
            np.testing.assert_array_equal(model.predict_proba(files), shares)
            np.testing.assert_array_equal(model.predict_proba([str(file) for file in files]), shares)
            files[7].unlink()
            with self.assertRaisesRegex(ValueError, "row 7"):
                model.predict(files)
        self.check_copies(model, images)
        grey = self.Classifier(**dict(keys, num_train_epochs=1)).fit(images[..., 0], labels)
        self.assertEqual(grey.predict(images[..., 0]).shape, (60,))
        with self.assertRaisesRegex(ValueError, "classes only"):
            self.Regressor(**keys).fit(images, labels.astype(float))

    def test_numbers(self):
        generator = np.random.default_rng(2)
        X = generator.normal(size=(300, 6)).astype(np.float32)
        y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
        keys = dict(threads=1, memory="1GiB", hidden_sizes=[32, 16], learning_rate=3e-3)
        model = self.Classifier(**keys).fit(X, y)
        self.assertGreater(model.score(X, y), 0.95)
        self.assertLess(model.learner_.losses[-1], model.learner_.losses[0])
        self.check_copies(model, X)
        np.testing.assert_array_equal(self.Classifier(**keys).fit(X, y).predict_proba(X), model.predict_proba(X))
        with self.assertRaisesRegex(ValueError, "6 features"):
            model.predict(X[:, :5])
        # Further from a pickle or not: the same bits.
        other = pickle.loads(pickle.dumps(model)).partial_fit(X, y)
        np.testing.assert_array_equal(other.predict_proba(X), model.partial_fit(X, y).predict_proba(X))
        # In two calls what is one of two epochs.
        once = self.Regressor(**keys, num_train_epochs=2).fit(X, X[:, 2])
        self.assertEqual(len(once.learner_.losses), 2 * 10)
        twice = self.Regressor(**keys).partial_fit(X, X[:, 2]).partial_fit(X, X[:, 2])
        self.assertEqual(twice.learner_.counts, once.learner_.counts)
        self.assertGreater(self.Regressor(**keys).fit(X, X[:, 2]).score(X, X[:, 2]), 0.9)
        with self.assertRaises(snug.DoesNotFit):
            self.Classifier(**dict(keys, hidden_sizes=[20000, 20000])).fit(X, y)
        for wrong in (dict(model="bert-tiny"), dict(train_file="x"), dict(hidden_sizes=[0]), dict(memory="much"), dict(no_such_key=1)):
            with self.assertRaises((ValueError, snug.Error), msg=str(wrong)):
                self.Classifier(**dict(keys, **wrong)).fit(X, y)

    def test_numbers_predict_with_weights_as_they_were_trained(self):
        generator = np.random.default_rng(7)
        X = generator.normal(size=(40, 64)).astype(np.float32)
        y = X[:, 0]
        keys = dict(threads=1, memory="1GiB", num_train_epochs=5, learning_rate=1e-2)
        for held in (dict(weight_dtype="bfloat16"), dict(weight_dtype="bf16x8"), dict(freeze=["hidden.0.weight"], frozen_dtype="int8"), dict(lora={"match": "hidden.0.weight", "r": 4})):
            model = self.Regressor(**keys, **held).fit(X, y)
            # What the trained weights give in the session that trained: the loss of the next step that changes nothing.
            error = float(np.mean((model.predict(X) - y) ** 2))
            model.set_params(train_batch_size=40, learning_rate=0.0).partial_fit(X, y)
            self.assertAlmostEqual(model.learner_.losses[0], error, delta=0.01 * error, msg=str(held))
            self.check_copies(model, X)

    def test_nothing_learned_is_dropped_by_keys_that_changed(self):
        generator = np.random.default_rng(8)
        X = generator.normal(size=(40, 64)).astype(np.float32)
        y = X[:, 0]
        keys = dict(threads=1, memory="1GiB", num_train_epochs=2)
        for changed in (dict(hidden_sizes=[50]), dict(hidden_sizes=[100, 2]), dict(optim="sgd"), dict(optim="lion"), dict(optim_bits=8), dict(weight_dtype="bfloat16"),
                        dict(freeze=["out.*"]), dict(lora={"match": "hidden.0.weight", "r": 4})):
            model = self.Regressor(**keys).fit(X, y)
            before = model.predict(X)
            with self.assertRaisesRegex(ValueError, next(iter(changed))):
                model.set_params(**changed).partial_fit(X, y)
            np.testing.assert_array_equal(model.predict(X), before)
        model = self.Regressor(**keys).fit(X, y).set_params(learning_rate=0.1, train_batch_size=8, hidden_dropout_prob=0.5, seed=3)
        self.assertEqual(model.partial_fit(X, y).learner_.counts[2], 4 + 5)
        for name in ("batch_rows", "process_bytes"):
            with self.assertRaisesRegex(ValueError, name):
                self.Regressor(**keys, **{name: 8}).fit(X, y)
        # A falling rate ends where max_steps says, over all passes.
        model = self.Regressor(**keys, lr_scheduler_type="linear", max_steps=3).partial_fit(X, y).partial_fit(X, y)
        self.assertEqual(model.learner_.counts[1], 4)

    def test_a_weight_is_a_row_that_stands_there_more_often(self):
        generator = np.random.default_rng(5)
        X = generator.normal(size=(12, 3)).astype(np.float32)
        y, weights = X[:, 0] - X[:, 1], np.arange(12) % 3  # 0, 1, 2; with them 12 rows
        keys = dict(threads=1, memory="1GiB", num_train_epochs=20)
        for Estimator, targets in ((self.Regressor, y), (self.Classifier, y > 0)):
            weighted = Estimator(**keys).fit(X, targets, sample_weight=weights)
            repeated = Estimator(**keys).fit(X.repeat(weights, axis=0), targets.repeat(weights))
            np.testing.assert_array_equal(weighted.predict(X), repeated.predict(X))
            self.assertEqual(weighted.learner_.losses, repeated.learner_.losses)

    def test_parameters(self):
        model = self.Classifier("bert-mini", memory="2GiB", learning_rate=1e-4)
        self.assertEqual(model.get_params(), {"model": "bert-mini", "memory": "2GiB", "learning_rate": 1e-4})
        self.assertEqual(sklearn.base.clone(model).get_params(), model.get_params())
        self.assertIs(model.set_params(memory="1GiB", weight_decay=0.1), model)
        self.assertEqual((model.memory, model.weight_decay), ("1GiB", 0.1))
        for name in ("no_such_key", "train_file", "output_dir"):
            with self.assertRaisesRegex(ValueError, name):
                model.set_params(**{name: 1})
        self.assertIn("learning_rate=0.0001", repr(model))

    def test_within_scikit_learns_tools(self):
        from sklearn.model_selection import GridSearchCV, cross_val_score
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, StandardScaler

        lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
        pipeline = make_pipeline(lower, self.Classifier(**TINY))
        search = GridSearchCV(pipeline, {"snugclassifier__max_steps": [1, 60]}, cv=2).fit(self.texts, self.labels)
        self.assertEqual(search.best_params_, {"snugclassifier__max_steps": 60})
        self.assertEqual(len(search.predict(self.texts)), 120)
        generator = np.random.default_rng(3)
        X = generator.normal(size=(120, 4)) * [1, 10, 100, 1000]
        scores = cross_val_score(make_pipeline(StandardScaler(), self.Regressor(memory="1GiB", threads=1)), X, X @ [1, 0.1, 0.01, 0.001], cv=3)
        self.assertGreater(scores.min(), 0.8)

    def test_scikit_learns_own_checks_on_numbers(self):
        from sklearn.utils.estimator_checks import check_estimator

        for model in (self.Classifier(), self.Regressor()):
            results = check_estimator(model, on_fail=None, on_skip=None)
            failed = [f"{each['check_name']}: {each['exception']}" for each in results if each["status"] == "failed"]
            self.assertEqual(failed, [])
            self.assertGreater(sum(each["status"] == "passed" for each in results), 50)


if __name__ == "__main__":
    unittest.main()
