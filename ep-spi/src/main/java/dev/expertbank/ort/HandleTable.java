package dev.expertbank.ort;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Java objects by the number that ONNX Runtime carries for them in a structure or a state pointer.
 * Numbers start at 1, so that no valid one looks like NULL. Lookups take no lock.
 */
final class HandleTable<T> {
  private volatile @Nullable Object[] objects = new @Nullable Object[8];

  synchronized long add(T object) {
    @Nullable Object[] copy = objects;
    int free = 0;
    while (free < copy.length && copy[free] != null) {
      free++;
    }
    copy = Arrays.copyOf(copy, free == copy.length ? 2 * free : copy.length);
    copy[free] = object;
    objects = copy;
    return free + 1L;
  }

  @SuppressWarnings("unchecked") // only add() writes, and it takes a T
  T get(long handle) {
    @Nullable Object[] snapshot = objects;
    T object = handle < 1 || handle > snapshot.length ? null : (T) snapshot[(int) handle - 1];
    if (object == null) {
      throw new IllegalStateException("ONNX Runtime used handle " + handle + ", which is released");
    }
    return object;
  }

  synchronized void remove(long handle) {
    get(handle);
    @Nullable Object[] copy = objects.clone();
    copy[(int) handle - 1] = null;
    objects = copy;
  }
}
