package dev.expertbank.residency;

import dev.expertbank.residency.ResizeRejection.NoOp;
import dev.expertbank.residency.ResizeRejection.NotSafePoint;

/** Whether a resize can be tried now. */
public sealed interface ResizePlan {
  /** It can. */
  record Accepted(ResizeRequest request) implements ResizePlan {}

  /** It cannot. */
  record Rejected(ResizeRequest request, ResizeRejection reason) implements ResizePlan {}

  /** A resize by nothing is no resize, safe or not; then the most important blocker decides. */
  static ResizePlan planResize(ResizeRequest request, SafePoint safePoint) {
    if (request.bytes() == 0) {
      return new Rejected(request, new NoOp());
    }
    return safePoint
        .blocker()
        .<ResizePlan>map(blocker -> new Rejected(request, new NotSafePoint(blocker)))
        .orElseGet(() -> new Accepted(request));
  }
}
