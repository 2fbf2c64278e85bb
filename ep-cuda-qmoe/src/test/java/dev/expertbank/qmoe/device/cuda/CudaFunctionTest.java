package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import org.junit.jupiter.api.Test;

class CudaFunctionTest {
  @Test
  void everyFunctionReturnsAResult() {
    assertThat(CudaFunction.values())
        .allSatisfy(
            function ->
                assertThat(function.descriptor().returnLayout()).contains(ValueLayout.JAVA_INT));
    assertThat(Arrays.stream(CudaFunction.values()).map(CudaFunction::symbol))
        .doesNotHaveDuplicates();
  }

  @Test
  void messagesWriteAddressesInHexadecimalAndSizesInDecimal() {
    assertThat(CudaFunction.MEM_HOST_REGISTER.call(0x7f0000001000L, 4096, 11))
        .isEqualTo("cuMemHostRegister_v2(0x7f0000001000, 4096, 11)");
  }
}
