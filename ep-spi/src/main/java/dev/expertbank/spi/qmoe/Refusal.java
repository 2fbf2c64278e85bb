package dev.expertbank.spi.qmoe;

/** Ends the reading of a node; never leaves this package. */
final class Refusal extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String code;

  Refusal(String code, String reason) {
    super(reason, null, false, false);
    this.code = code;
  }

  QMoeReading.Unsupported toReading() {
    return new QMoeReading.Unsupported(code, String.valueOf(getMessage()));
  }
}
