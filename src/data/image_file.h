// SPDX-License-Identifier: Apache-2.0
// CIFAR's binary batches as rows: a file is records of one label byte (CIFAR-100: two, of which the
// second counts) and 3072 pixel bytes, the 32x32 red ones first. Read once when opened, to check
// labels and to know the content; then record by record through pread. Memory does not grow with
// the number of images.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "data/label_map.h"
#include "data/row_store.h"

namespace snug::data {

inline constexpr int64_t kCifarSide = 32;
inline constexpr int64_t kCifarChannels = 3;
// Mean and standard deviation of CIFAR-10's training images, by channel.
inline constexpr std::array<double, 3> kCifarMean = {0.4914, 0.4822, 0.4465};
inline constexpr std::array<double, 3> kCifarDeviation = {0.2470, 0.2435, 0.2616};

/// What a byte of a channel becomes: (byte / divisor - mean) / deviation, in f32.
struct ImageNormalization {
  double divisor = 255;
  std::array<double, kCifarChannels> mean = kCifarMean;
  std::array<double, kCifarChannels> deviation = kCifarDeviation;
  [[nodiscard]] float value(uint8_t byte, size_t channel) const {
    return (static_cast<float>(byte) / static_cast<float>(divisor) -
            static_cast<float>(mean[channel])) /
           static_cast<float>(deviation[channel]);
  }
  friend bool operator==(const ImageNormalization&, const ImageNormalization&) = default;
};

class ImageFile final : public RowStore {
 public:
  /// A .bin file, or a folder: then its data_batch_*.bin (or train.bin) in the order of their
  /// names. Label names come from batches.meta.txt (fine_label_names.txt) beside the files, else
  /// they are numbers; the file gives ids, so `rule` decides what is theirs. Throws Error{bad_data}
  /// for a file that is not CIFAR's, Error{io}, and what map_labels throws.
  explicit ImageFile(const std::string& path, const LabelRule& rule = {},
                     const ImageNormalization& normalization = {});
  ~ImageFile() override;

  [[nodiscard]] int64_t rows() const override;
  [[nodiscard]] const Labels& labels() const override;
  [[nodiscard]] LabelSource label_source() const;
  [[nodiscard]] uint64_t content_hash() const override;
  [[nodiscard]] int64_t most_values() const override { return 1; }
  void read_columns(int64_t row, RowColumns& out) const override;  // one_label()'s
  void read_lengths(std::span<const int64_t> rows, std::span<int32_t> lengths) const override;
  /// pixel_values are normalised; padding rows are zeros.
  void fill(const MicroBatch& batch, const BatchBuffers& buffers) const override;

  /// Images by label id.
  [[nodiscard]] const std::vector<int64_t>& label_counts() const;
  [[nodiscard]] const std::vector<std::string>& files() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace snug::data
