package dev.expertbank.residency;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Writes down every action, and ends some of them as told. */
final class RecordingActions implements ResidencyActions {
  final List<String> log = new ArrayList<>();
  final Map<ExpertKey, FillStart> starts = new HashMap<>();
  final Map<ExpertKey, FillEnd> ends = new HashMap<>();
  Runnable onAction = () -> {};

  /** What was done since this was asked last. */
  List<String> take() {
    List<String> taken = List.copyOf(log);
    log.clear();
    return taken;
  }

  @Override
  public FillStart startFill(ExpertKey key) {
    write("fill", key);
    return starts.getOrDefault(key, FillStart.STARTED);
  }

  @Override
  public FillEnd awaitFill(ExpertKey key) {
    write("await", key);
    return ends.getOrDefault(key, FillEnd.COMPLETED);
  }

  @Override
  public void publish(ExpertKey key) {
    write("publish", key);
  }

  @Override
  public void unpublish(ExpertKey key) {
    write("unpublish", key);
  }

  private void write(String action, ExpertKey key) {
    log.add(action + " " + key.layer() + "." + key.expert());
    onAction.run();
  }
}
