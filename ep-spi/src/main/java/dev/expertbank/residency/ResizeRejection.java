package dev.expertbank.residency;

/** Why a resize did not happen, or not as far as requested. */
public sealed interface ResizeRejection {
  /** A resize by nothing. */
  record NoOp() implements ResizeRejection {}

  /** Something is in the way; it may work at a later boundary. */
  record NotSafePoint(SafePoint.Blocker blocker) implements ResizeRejection {}

  /** The bytes could not be had or given back. */
  record ExecutionFailed(String reason) implements ResizeRejection {}
}
