package dev.expertbank.state;

import dev.expertbank.spi.EpException;
import org.jspecify.annotations.Nullable;

/** A state group that was refused; {@link #refusal} says why. */
public final class StateGroupException extends EpException {
  private static final long serialVersionUID = 1L;

  private final StateRefusal refusal;

  public StateGroupException(StateRefusal refusal) {
    this(refusal, null);
  }

  public StateGroupException(StateRefusal refusal, @Nullable Throwable cause) {
    super(refusal.code(), refusal.message(), cause);
    this.refusal = refusal;
  }

  public StateRefusal refusal() {
    return refusal;
  }
}
