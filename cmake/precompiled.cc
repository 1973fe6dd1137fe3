// SPDX-License-Identifier: Apache-2.0
// Owns nothing: a target that precompiles headers (cmake/snug.cmake) has to have a source.
