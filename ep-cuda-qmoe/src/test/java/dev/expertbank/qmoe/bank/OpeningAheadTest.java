package dev.expertbank.qmoe.bank;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class OpeningAheadTest {
  private final List<Integer> done = new CopyOnWriteArrayList<>();
  private final CountDownLatch last = new CountDownLatch(1);

  private Runnable step(int number) {
    return () -> done.add(number);
  }

  @Test
  void stepsAreDoneInOrderByAnotherThread() throws Exception {
    Thread caller = Thread.currentThread();
    List<Thread> threads = new CopyOnWriteArrayList<>();
    try (var _ =
        new OpeningAhead(
            List.of(
                step(1), step(2), () -> threads.add(Thread.currentThread()), last::countDown))) {
      last.await();
    }
    assertThat(done).containsExactly(1, 2);
    assertThat(threads).doesNotContain(caller).hasSize(1);
  }

  @Test
  void nothingFollowsAFailure() throws Exception {
    OpeningAhead ahead =
        new OpeningAhead(
            List.of(
                step(1),
                () -> {
                  last.countDown();
                  throw new IllegalStateException("on purpose");
                },
                step(2)));
    last.await();
    ahead.close();
    assertThat(done).containsExactly(1);
  }

  @Test
  void closeWaitsForTheStepThatIsUnderWayAndNoOtherFollows() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    OpeningAhead ahead =
        new OpeningAhead(
            List.of(
                () -> {
                  begun.countDown();
                  awaitQuietly(last);
                  done.add(1);
                },
                step(2)));
    begun.await();
    Thread closing = Thread.ofPlatform().start(ahead::close);
    while (closing.getState() != Thread.State.WAITING) {
      Thread.onSpinWait();
    }
    assertThat(done).isEmpty();
    last.countDown();
    closing.join();
    assertThat(done).containsExactly(1);
    ahead.close();
  }

  private static void awaitQuietly(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
