package dev.expertbank.memory;

import dev.expertbank.spi.EpException;
import org.jspecify.annotations.Nullable;

/** A refused request for memory; {@link #refusal} has the numbers. */
public final class MemoryException extends EpException {
  private static final long serialVersionUID = 1L;

  private final MemoryRefusal refusal;

  public MemoryException(MemoryRefusal refusal) {
    this(refusal, null);
  }

  public MemoryException(MemoryRefusal refusal, @Nullable Throwable cause) {
    super(refusal.code(), refusal.message(), cause);
    this.refusal = refusal;
  }

  public MemoryRefusal refusal() {
    return refusal;
  }
}
