package dev.expertbank.spi.qmoe;

import dev.expertbank.spi.TensorShape;

/** Why a tensor has no byte range per expert in a file. */
public sealed interface NonPageableReason {
  /** One printable sentence. */
  String text();

  /** The bytes are inside the model file. */
  record InlineTensor() implements NonPageableReason {
    @Override
    public String text() {
      return "the tensor is stored inside the model file, not as external data";
    }
  }

  record UnsupportedLayoutVersion(int version) implements NonPageableReason {
    @Override
    public String text() {
      return "layout version "
          + version
          + " is not supported; "
          + ExpertTensorLayout.VERSION
          + " is";
    }
  }

  record NotExpertMajor() implements NonPageableReason {
    @Override
    public String text() {
      return "the experts are interleaved, so none of them is one range of bytes";
    }
  }

  record ShapeMismatch(TensorShape expected, TensorShape actual) implements NonPageableReason {
    @Override
    public String text() {
      return "the shape is "
          + QMoeOperands.text(actual)
          + " where the layout says "
          + QMoeOperands.text(expected);
    }
  }

  record InvalidQuantization(ExpertQuantization quantization) implements NonPageableReason {
    @Override
    public String text() {
      return "no quantization has "
          + quantization.bits()
          + " bits, blocks of "
          + quantization.blockSize()
          + " and "
          + quantization.blocksPerRow()
          + " blocks in a row";
    }
  }

  /**
   * A size or an offset that cannot be.
   *
   * @param text one printable sentence
   */
  record Range(String text) implements NonPageableReason {}

  record ExternalLengthMismatch(long expected, long actual) implements NonPageableReason {
    @Override
    public String text() {
      return "the shape takes "
          + expected
          + " bytes, but the external data is stated to have "
          + actual;
    }
  }

  /** The tensor is for no expert at all. */
  record NoExperts() implements NonPageableReason {
    @Override
    public String text() {
      return "the tensor holds no experts";
    }
  }
}
