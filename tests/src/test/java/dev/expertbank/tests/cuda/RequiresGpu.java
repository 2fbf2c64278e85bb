package dev.expertbank.tests.cuda;

import dev.expertbank.qmoe.device.cuda.CudaProbe;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.extension.ConditionEvaluationResult;
import org.junit.jupiter.api.extension.ExecutionCondition;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Runs where a GPU can be used; elsewhere prints every reason why none can. */
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Tag("gpu")
@ExtendWith(RequiresGpu.Condition.class)
public @interface RequiresGpu {
  /** Asks the driver. */
  final class Condition implements ExecutionCondition {
    @Override
    public ConditionEvaluationResult evaluateExecutionCondition(ExtensionContext context) {
      CudaProbe probe = CudaProbe.run();
      if (!probe.usable().isEmpty()) {
        return ConditionEvaluationResult.enabled(probe.usable().getFirst().description());
      }
      String reason = "no GPU can be used: " + String.join("; ", probe.allProblems());
      if (context.getTestMethod().isEmpty()) {
        System.out.println(context.getDisplayName() + " is skipped: " + reason);
      }
      return ConditionEvaluationResult.disabled(reason);
    }
  }
}
