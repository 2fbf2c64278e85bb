package dev.expertbank.residency;

/** Why a window decides nothing, in the order of the checks. */
public enum RouteWindowProblem {
  /** The header has not the length of a header. */
  HEADER_LENGTH,
  /** The counts are not those of the layers and experts of the model. */
  COUNTS_LENGTH,
  /** An expert that does not exist was routed to. */
  POISON,
  /** A counter has saturated. */
  OVERFLOW,
  /** Recorded on another device. */
  DEVICE,
  /** Recorded for another owner. */
  REQUEST,
  /** Not the window that is due. */
  EPOCH,
  /** An expert was routed to by more rows than there were. */
  EXPERT_COUNT,
  /** The header counts other routes than the experts do. */
  COUNT_SUM,
  /** The routes of a layer are not those of whole rows. */
  PARTIAL_ROW,
  /** Rows without routes, routes without rows, or a layer with more rows than there were. */
  TOKENS,
  /** A sound window in which no row was routed. */
  EMPTY
}
