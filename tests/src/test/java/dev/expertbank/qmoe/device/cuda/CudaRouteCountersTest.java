package dev.expertbank.qmoe.device.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.cuda.CudaNode.Places;
import dev.expertbank.residency.RouteWindow.Header;
import dev.expertbank.tests.cuda.RequiresGpu;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Windows of the one record on a GPU that is hardly ever cleared. */
@RequiresGpu
@Timeout(120)
class CudaRouteCountersTest {
  private static final int TOP_K = 2;
  private static final int TOKENS = 3;

  @TempDir Path directory;

  private CudaNode node;
  private CudaContext.Current current;
  private CudaCalls calls;
  private CudaRouteCounters counters;
  private long stream;

  @BeforeEach
  void open() {
    node =
        new CudaNode(CudaNode.writeModel(directory), OptionalLong.empty(), true, FaultPlan.none());
    current = node.device().context().makeCurrent();
    calls = node.device().context().calls();
    stream = calls.createStream();
    counters = (CudaRouteCounters) node.device().openRouteCounters(List.of(CudaNode.EXPERTS));
    counters.reset(header(1));
    counters.arm();
  }

  @AfterEach
  void close() {
    calls.synchronizeStream(stream);
    calls.destroyStream(stream);
    current.close();
    node.close();
  }

  private static int[] header(int epoch) {
    int[] header = new int[Header.LENGTH];
    header[Header.EPOCH.index()] = epoch;
    header[Header.REQUEST.index()] = 5;
    return header;
  }

  private void run(int tokens) {
    node.launch(stream, tokens, Places.DEVICE);
  }

  private int[] window(boolean ended) {
    if (ended) {
      node.device().runsEnded();
    }
    return counters.read();
  }

  private static void assertWindow(int[] window, int epoch, int tokens) {
    assertThat(window[Header.EPOCH.index()]).isEqualTo(epoch);
    assertThat(window[Header.REQUEST.index()]).isEqualTo(5);
    assertThat(window[Header.OVERFLOW.index()]).isZero();
    assertThat(window[Header.POISON.index()]).isZero();
    assertThat(window[Header.COUNT.index()]).isEqualTo(tokens * TOP_K);
    int[] counts = Arrays.copyOfRange(window, Header.LENGTH, window.length);
    assertThat(counts).hasSize(CudaNode.EXPERTS);
    assertThat(Arrays.stream(counts).sum()).isEqualTo(tokens * TOP_K);
    assertThat(Arrays.stream(counts).allMatch(count -> count >= 0 && count <= tokens)).isTrue();
  }

  @ParameterizedTest(name = "after runsEnded: {0}")
  @ValueSource(booleans = {true, false})
  void everyWindowHasTheRoutesSinceTheOneBefore(boolean ended) {
    int[] first = null;
    for (int epoch = 1; epoch <= 3; epoch++) {
      run(TOKENS);
      int[] window = window(ended);
      assertWindow(window, epoch, TOKENS);
      int[] counts = Arrays.copyOfRange(window, Header.LENGTH, window.length);
      first = first == null ? counts : first;
      assertThat(counts).as("the same tokens choose the same experts").isEqualTo(first);
      counters.reset(header(epoch + 1));
    }
    assertWindow(window(ended), 4, 0);
  }

  @Test
  void aWindowThatWasNotTakenGoesOn() {
    run(TOKENS);
    assertWindow(window(true), 1, TOKENS);
    run(TOKENS);
    node.device().runsEnded();
    run(1);
    assertWindow(window(true), 1, 2 * TOKENS + 1);
  }

  /** Of both streams, though the copy that the first has started had only its own routes. */
  @Test
  void runsInSeveralStreamsAreAllCounted() {
    long other = calls.createStream();
    for (int epoch = 1; epoch <= 20; epoch++) {
      run(TOKENS);
      node.launch(other, CudaNode.MAX_TOKENS, Places.DEVICE);
      run(1);
      assertWindow(window(true), epoch, TOKENS + CudaNode.MAX_TOKENS + 1);
      counters.reset(header(epoch + 1));
    }
    calls.destroyStream(other);
  }

  @Test
  void tensorsOfTheHostAreCountedToo() {
    for (int epoch = 1; epoch <= 3; epoch++) {
      run(TOKENS);
      node.launch(stream, TOKENS, Places.HOST);
      assertWindow(window(true), epoch, 2 * TOKENS);
      counters.reset(header(epoch + 1));
    }
  }

  @Test
  void aResetWithoutAReadingStartsAnew() {
    run(TOKENS);
    counters.reset(header(7));
    run(1);
    assertWindow(window(true), 7, 1);
  }

  @Test
  void countersThatComeNearToTheirEndAreCleared() {
    calls.setInts(counters.counts(0), Integer.MAX_VALUE - 1, 1, stream);
    run(CudaNode.MAX_TOKENS);
    window(true);
    counters.reset(header(2));
    for (int epoch = 2; epoch < 4; epoch++) {
      run(TOKENS);
      assertWindow(window(true), epoch, TOKENS);
      counters.reset(header(epoch + 1));
    }
  }

  @Test
  void aFlagIsOfItsWindowOnly() {
    long poison = counters.header() + (long) Header.POISON.index() * Integer.BYTES;
    calls.setInts(poison, 1, 1, stream);
    run(1);
    assertThat(window(true)[Header.POISON.index()]).isEqualTo(1);
    counters.reset(header(2));
    run(TOKENS);
    assertWindow(window(true), 2, TOKENS);
  }

  @Test
  void whatIsNotArmedCountsNothing() {
    counters.disarm();
    run(TOKENS);
    counters.arm();
    run(1);
    assertWindow(window(true), 1, 1);
  }
}
