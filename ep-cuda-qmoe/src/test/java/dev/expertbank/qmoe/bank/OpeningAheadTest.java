package dev.expertbank.qmoe.bank;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
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
    try (OpeningAhead ahead = new OpeningAhead()) {
      ahead.add(step(1));
      ahead.add(step(2));
      ahead.add(() -> threads.add(Thread.currentThread()));
      ahead.add(last::countDown);
      last.await();
    }
    assertThat(done).containsExactly(1, 2);
    assertThat(threads).doesNotContain(caller).hasSize(1);
  }

  @Test
  void nothingFollowsAFailure() {
    AtomicReference<Thread> thread = new AtomicReference<>();
    try (OpeningAhead ahead = new OpeningAhead()) {
      ahead.add(
          () -> {
            thread.set(Thread.currentThread());
            ahead.add(step(1));
            throw new IllegalStateException("on purpose");
          });
      // Until it has nothing left to do.
      while (thread.get() == null || thread.get().getState() != Thread.State.WAITING) {
        Thread.onSpinWait();
      }
    }
    assertThat(done).isEmpty();
  }

  @Test
  void closeWaitsForTheStepThatIsUnderWayAndNoOtherFollows() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    OpeningAhead ahead = new OpeningAhead();
    ahead.add(
        () -> {
          begun.countDown();
          awaitQuietly(last);
          done.add(1);
        });
    ahead.add(step(2));
    begun.await();
    Thread closing = Thread.ofPlatform().start(ahead::close);
    while (closing.getState() != Thread.State.TIMED_WAITING) {
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
