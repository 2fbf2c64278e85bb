package dev.expertbank.spi;

import org.jspecify.annotations.Nullable;

/**
 * An error with a stable code, such as {@code options.unknown-key} or {@code external.range}. The
 * message names what was wrong, where, and what to do.
 */
public class EpException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final String code;

  public EpException(String code, String message) {
    this(code, message, null);
  }

  public EpException(String code, String message, @Nullable Throwable cause) {
    super(message, cause);
    this.code = code;
  }

  /** The stable code, lower case words joined by dots and dashes. */
  public String code() {
    return code;
  }
}
