"""The mistakes of docs/traps.md, each made on purpose: what is replaced in which file, and the test that must fail then.

Every text to replace stands exactly once in its file. A test is a name of googletest under its program, or a method of a file of
tests/e2e.
"""
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    trap: str
    mistake: str
    file: str
    before: str
    after: str
    target: str  # a program of the build, or a file of tests/e2e
    tests: tuple


SESSION = "session_test"

# A mean of its own for every micro-batch, all of them weighed alike; 0 / 0 where it has no label.
MEAN_OF_MEANS = """    if (engine.has(name)) {
      double total = 0;
      const MeanTotal& mean = facts_.means[i];
      for (size_t each = 0; each < staged_.size(); ++each) {
        const Input& input = inputs_->inputs[each];
        if (input.name != mean.weights || input.dtype != DType::i32) continue;
        total += sum_of_weights(input.dtype, staged_[each].data(), rows * element_count(input.row_shape));
      }
      const int64_t micro_batch = engine.plan().micro_batch;
      const int64_t pieces = (source_->rows() + micro_batch - 1) / micro_batch;
      engine.write(name, static_cast<float>(
          1.0 / (total * static_cast<double>(mean.each) * static_cast<double>(pieces))));
    }
"""
TOTAL = """    if (engine.has(name))
      engine.write(name, totals_[i] > 0 ? static_cast<float>(1.0 / totals_[i]) : 0.0F);
"""

KEY = "    const auto* rng = reinterpret_cast<const int64_t*>(piece.inputs[1]);\n"
KEY_WITH_A_STATE = """    static int64_t calls = 0;
    const auto* fed = reinterpret_cast<const int64_t*>(piece.inputs[1]);
    const int64_t drawn[] = {fed[0], ++calls, fed[2]};
    const int64_t* rng = drawn;
"""

MUTANTS = [
    Mutant("T1", "the mean of the micro-batches' means", "src/session/feeder.cc", TOTAL, MEAN_OF_MEANS, SESSION,
           ("Accumulation.T1_every_split_has_the_mean_over_all_tokens",)),
    Mutant("T2", "the rest of an epoch is divided by a whole batch", "src/session/feeder.cc",
           "  return each * sum;",
           "  return each * sum *\n         static_cast<double>(engine_.plan().micro_batch * engine_.plan().accumulation_steps) /\n"
           "         static_cast<double>(source_->rows());",
           SESSION, ("Accumulation.T2_the_rows_that_are_left_over_are_a_batch_of_their_own",)),
    Mutant("T3", "the schedule steps once a micro-batch", "src/session/session.cc",
           "    ++counts.schedule;", "    counts.schedule += planned->plan.accumulation_steps;",
           SESSION, ("Accumulation.T3_the_schedule_counts_updates_and_not_micro_batches",)),
    Mutant("T4", "every contribution to a gradient is clipped alone, to a norm of 1", "src/autodiff/autodiff.cc",
           "    if (sum != accumulators_.end()) {\n",
           "    if (sum != accumulators_.end()) {\n"
           "      const ValueId square = builder_.op1(\"sum_squares\", {gradient});\n"
           "      gradient = builder_.op1(\n"
           "          \"mul\", {gradient, builder_.op(\"global_norm\", {square}, {{\"max_norm\", 1.0}})[1]});\n",
           SESSION, ("Accumulation.T4_clipping_sees_the_whole_batch",)),
    Mutant("T5", "clipped before the scale is taken out", "src/compile/updates.cc",
           "    squares.push_back(optim::append_squares(builder, gradient, unscale));\n  const optim::Clip",
           "    squares.push_back(optim::append_squares(builder, gradient, kNone));\n  const optim::Clip",
           SESSION, ("Loss_scale.T5_the_update_is_the_same_for_every_scale_with_and_without_clipping",)),
    Mutant("T5", "taken out by the scale of the update before", "src/session/update.cc",
           "  feed(compile::kLossUnscaleName, 1 / scale);",
           "  static double before = scale;\n  feed(compile::kLossUnscaleName, 1 / before);\n  before = scale;",
           SESSION, ("Loss_scale.T5_the_update_is_the_same_across_a_growth_step",)),
    Mutant("T6", "an overflow counts as an update", "src/session/session.cc",
           "  if (!is_skipped) {\n    ++counts.schedule;", "  if (counts.drawn > 0) {\n    ++counts.schedule;",
           SESSION, ("Loss_scale.T6_an_overflow_at_any_micro_batch_leaves_every_bit",)),
    Mutant("T6", "an overflow moves running statistics", "src/session/update.cc",
           "  if (!is_finite || has_two_passes) kept.restore(engine);", "  if (has_two_passes) kept.restore(engine);",
           SESSION, ("Loss_scale.T6_an_overflow_at_any_micro_batch_leaves_every_bit",)),
    Mutant("T6", "an overflow moves weights", "src/ops/optimizer/optimizer_cpu.cc",
           "      factor = std::nan(\"\");  // skips the update", "      factor = 0;",
           SESSION, ("Loss_scale.T6_an_overflow_at_any_micro_batch_leaves_every_bit",)),
    Mutant("T7", "a micro-batch without labels is 0 / 0", "src/session/feeder.cc", TOTAL, MEAN_OF_MEANS, SESSION,
           ("Accumulation.T7_a_micro_batch_without_labels_adds_nothing",)),
    Mutant("T7", "a batch without labels passes", "src/session/feeder.cc",
           "  if (!(sum > 0) && !mean.may_be_zero)", "  if (sum < 0 && !mean.may_be_zero)", SESSION,
           ("Accumulation.T7_a_batch_without_labels_is_refused_and_moves_nothing",)),
    Mutant("T8", "the scale reaches the moments", "src/compile/backward.cc",
           "builder_.input(kClipFactorName, {DType::f32, {}}) : unscale_;",
           "builder_.input(kClipFactorName, {DType::f32, {}}) : kNone;", SESSION,
           ("Loss_scale.T8_a_scale_is_taken_out_before_the_moments",)),
    Mutant("T5", "the scale reaches the moments where all gradients wait for their norm", "src/optim/optimizer.cc",
           "  return {out.norm, scale == kNone ? out.coefficient : mul(builder, out.coefficient, scale)};",
           "  return {out.norm, scale == kNone ? out.coefficient : out.coefficient};", SESSION,
           ("Loss_scale.T5_the_update_is_the_same_for_every_scale_with_and_without_clipping",)),
    Mutant("T9", "random numbers come from a generator with a state", "src/ops/dropout/dropout_cpu.cc",
           KEY, KEY_WITH_A_STATE, SESSION,
           ("Paddle.dropout_has_the_same_mask_when_it_runs_again",)),
    Mutant("T10", "random numbers come from a generator with a state", "src/ops/dropout/dropout_cpu.cc",
           KEY, KEY_WITH_A_STATE, SESSION,
           ("Session.five_budgets_from_keep_all_to_the_smallest_give_equal_bits",)),
    Mutant("T11", "running statistics move twice", "src/ops/batch_norm/batch_norm_ref.cc",
           "args.outputs[0].data[c] = mean + momentum * (args.inputs[2].data[c] - mean);",
           "args.outputs[0].data[c] = mean + momentum * (2 - momentum) * (args.inputs[2].data[c] - mean);", "train_test",
           ("Image_engine.running_statistics_move_once_an_update",)),
    Mutant("T12", "what has a frozen input has no gradient", "src/autodiff/autodiff.cc",
           "      const bool depends = std::any_of(node.inputs.begin(), node.inputs.end(),\n"
           "                                       [&](ValueId id) { return needs(id); });",
           "      const bool is_first = node.parts.empty() ||\n"
           "                            builder_.graph().value(node.inputs[0]).producer == kNone ||\n"
           "                            needs(node.inputs[0]);\n"
           "      const bool depends =\n"
           "          is_first && std::any_of(node.inputs.begin(), node.inputs.end(),\n"
           "                                  [&](ValueId id) { return needs(id); });",
           SESSION, ("Paddle.a_frozen_first_part_changes_no_gradient",)),
    Mutant("T13", "what runs again rounds towards zero", "src/runtime/executable.cc",
           "    stop_point();\n    queue_.run(*bound.kernel, bound.launch);\n  }\n",
           "    const auto is_same = [&](const Bound& each) { return each.node == bound.node; };\n"
           "    const bool again = &*std::ranges::find_if(kernels_, is_same) != &bound;\n"
           "    if (again) __builtin_ia32_ldmxcsr(0x7F80);\n"
           "    queue_.run(*bound.kernel, bound.launch);\n"
           "    __builtin_ia32_ldmxcsr(0x1F80);\n"
           "  }\n", "tests/e2e/precision_test.py", ("test_bits_are_equal_under_every_budget_and_after_a_kill",)),
    Mutant("T14", "a step leaves the casts of older weights behind", "src/session/session.cc",
           "  has_prologue = false;\n  return with_clean_gradients", "  return with_clean_gradients", SESSION,
           ("Precision.T14_T33_evaluation_between_steps_changes_no_bit", "Session.what_is_made_of_weights_follows_every_change_of_them")),
    Mutant("T19", "a probability less one, in place of what the others have", "src/ops/loss/loss_ref.cc",
           "rows.smoothing - uniform - sum_exp(z, rows.classes, lse, label)",
           "std::exp(z[c] - lse) - 1 + rows.smoothing - uniform", "nn_ops_test",
           ("Cross_entropy.confident_row_keeps_its_loss_and_gradient",)),
    Mutant("T20", "weights in bf16 are rounded to the nearest", "src/backend/cpu/weight_rows.cc",
           "round_to_bf16(x[begin + i], words[i]).bits", "round_to_bf16(x[begin + i], words[i] * 0 + 0x8000).bits", SESSION,
           ("Stored_weights_in_bf16.move_by_what_they_should",)),
    Mutant("T21", "gradients are added up in bf16", "src/autodiff/autodiff.cc",
           "      sum->second = builder_.op1(\"accumulate\", {sum->second, gradient});\n",
           "      sum->second = builder_.op1(\"accumulate\", {sum->second, gradient});\n"
           "      gradient = as_type(as_type(sum->second, DType::bf16), DType::f32);\n"
           "      sum->second = builder_.op1(\"set_zero\", {sum->second});\n"
           "      sum->second = builder_.op1(\"accumulate\", {sum->second, gradient});\n", SESSION,
           ("Accumulation.T21_gradients_of_many_micro_batches_are_added_up_in_f32",)),
    Mutant("T22", "a constant of -1e4 in place of a mask", "src/ops/softmax/softmax_cpu.cc",
           "  constexpr float kLowest = -std::numeric_limits<float>::infinity();\n  bool sees_any = false;",
           "  constexpr float kLowest = -1e4F;\n  bool sees_any = true;", SESSION,
           ("Precision.T22_masked_rows_in_f16_are_finite_and_within_their_bounds_of_f32",)),
    Mutant("T23", "states of embeddings in 8 bits", "src/optim/state_storage.cc",
           "storage.bits == 8 && !is_table &&", "storage.bits == 8 && (is_table || !is_table) &&", "optim_test",
           ("State_storage.leaves_small_states_and_tables_in_32_bits_unless_a_rule_says_otherwise",)),
    Mutant("T24", "0 is no code", "src/ops/optimizer/codec_cpu-inl.h",
           "    size = hn::IfThenElse(hn::RebindMask(d, is_subnormal), hn::Sub(size, subnormal_), size);\n",
           "    if constexpr (kIsSquare)\n"
           "      size = hn::IfThenElse(hn::RebindMask(d, is_subnormal), hn::Sub(size, subnormal_), size);\n", SESSION,
           ("Precision.T24_rows_of_a_table_that_do_not_occur_never_move",)),
    Mutant("T25", "a rule for one tensor is ignored", "src/optim/state_storage.cc",
           "          ? rule->bits == 8\n", "          ? storage.bits == 8 || rule->bits == 0\n",
           "tests/e2e/state_bits_test.py", ("test_rules_by_pattern_win",)),
    Mutant("T26", "the first update counts as the second", "src/session/update.cc",
           "done.optimizer + 1);", "done.optimizer + 2);", SESSION,
           ("Precision.T26_the_first_update_is_adams_whatever_was_made_before",)),
    Mutant("T27", "what is frozen decays and joins the norm", "src/compile/recipe.cc",
           "    if (!frozen.holds(i) && (!is_frozen", "    if (i < names.size() && (!is_frozen", SESSION,
           ("Precision.T27_frozen_weights_stay_and_are_no_part_of_the_norm",)),
    Mutant("T28", "one use of a weight has its gradient, the other's is lost", "src/autodiff/autodiff.cc",
           "      sum->second = builder_.op1(\"accumulate\", {sum->second, gradient});\n",
           "      if (gradients_.count(input) == 0)\n"
           "        sum->second = builder_.op1(\"accumulate\", {sum->second, gradient});\n", SESSION,
           ("Session.shared_scopes_are_one_weight_with_the_sum_of_both_gradients",)),
    Mutant("T29", "batches split although their rows are coupled", "src/choose/sizes.cc",
           "must_be_equal = !coupling.empty();", "must_be_equal = coupling == \"never\";", "train_test",
           ("Splits.batch_statistics_forbid_a_split_unless_it_is_allowed",)),
    Mutant("T31", "a recurrent net is cut where its states cross", "src/models/lstm/lstm.cc",
           "      step(t, states);\n",
           "      step(t, states);\n      if (t == 2) states.assign(layers_.size(), {.h = zero, .c = zero});\n", "models_test",
           ("Lstm.states_alone_cross_between_steps",)),
    Mutant("T32", "a resumed run begins with moments of 0", "src/train/checkpoint.cc",
           "  read_values(folder + \"/optimizer.safetensors\", session, model, false, frozen);\n", "", "tests/e2e/resume_test.py",
           ("test_kill_9_at_random_moments_and_resume_gives_the_uninterrupted_weights",)),
    Mutant("T32", "a resumed run begins its epoch anew", "src/train/trainer.cc",
           "training.sampler->seek(state.epoch, state.batch);", "training.sampler->seek(state.epoch, 0);",
           "tests/e2e/resume_test.py", ("test_resume_under_another_budget_goes_on_to_the_same_bits",)),
    Mutant("T33", "evaluation runs as training does", "src/compile/compile.cc",
           "{.rows = shape.rows, .lengths = shape.lengths, .training = false}",
           "{.rows = shape.rows, .lengths = shape.lengths, .training = true}", SESSION,
           ("Precision.T14_T33_evaluation_between_steps_changes_no_bit",)),
    Mutant("T33", "evaluation weighs its micro-batches alike", "src/session/session.cc",
           "evaluation.loss += engine->scalar(program, compile::kLossName);",
           "evaluation.loss += engine->scalar(program, compile::kLossName) *\n"
           "          static_cast<double>(rows.rows()) /\n"
           "          static_cast<double>(count * ((rows.rows() + micro_batch - 1) / micro_batch));", SESSION,
           ("Precision.T33_training_and_evaluation_define_the_loss_alike",)),
    Mutant("T34", "a weight that is missing is passed over", "src/run_model/model_weights.cc",
           "  add(found.missing, \"missing\");\n", "", "tests/e2e/labels_test.py",
           ("test_weights_are_compared_before_anything_is_planned",)),
]
