package dev.expertbank.model.cli;

import static org.assertj.core.api.Assertions.assertThat;

import dev.expertbank.model.cli.HitRatePlot.Line;
import dev.expertbank.model.cli.HitRatePlot.Point;
import java.io.IOException;
import java.io.StringReader;
import java.util.ArrayList;
import java.util.List;
import javax.xml.parsers.DocumentBuilderFactory;
import javax.xml.parsers.ParserConfigurationException;
import org.junit.jupiter.api.Test;
import org.w3c.dom.Document;
import org.w3c.dom.Element;
import org.w3c.dom.NodeList;
import org.xml.sax.InputSource;
import org.xml.sax.SAXException;

class HitRatePlotTest {
  private static final String HOSTILE = "</svg><script>&'\"]]>";

  private static Document document(List<Line> lines) {
    String svg = new HitRatePlot(HOSTILE, "prompt " + HOSTILE, "budget", lines).svg();
    try {
      return DocumentBuilderFactory.newInstance()
          .newDocumentBuilder()
          .parse(new InputSource(new StringReader(svg)));
    } catch (ParserConfigurationException | SAXException | IOException e) {
      throw new AssertionError(svg, e);
    }
  }

  private static List<String> texts(Document document, String element) {
    NodeList found = document.getElementsByTagName(element);
    List<String> texts = new ArrayList<>();
    for (int i = 0; i < found.getLength(); i++) {
      texts.add(found.item(i).getTextContent());
    }
    return texts;
  }

  @Test
  void namesStayTextWhateverTheyHold() {
    Document document = document(List.of(new Line(HOSTILE, false, List.of(new Point(0.5, 0.5)))));

    assertThat(texts(document, "script")).isEmpty();
    assertThat(texts(document, "title"))
        .containsExactly(
            "Byte hit rate against budget: " + HOSTILE, HOSTILE, HOSTILE + ": 50.0 % at 50.0 %");
    assertThat(texts(document, "text")).contains(HOSTILE);
  }

  @Test
  void theDescriptionHoldsTheNumbersForThoseWhoDoNotSeeTheLines() {
    Document document =
        document(
            List.of(
                new Line("a", false, List.of(new Point(0.1, 0.25), new Point(1, 1))),
                new Line("b", true, List.of(new Point(0.125, 0)))));

    assertThat(document.getDocumentElement().getAttribute("role")).isEqualTo("img");
    assertThat(texts(document, "desc").getFirst())
        .endsWith("a: 25.0 % at 10.0 %; 100.0 % at 100.0 %. b: 0.0 % at 12.5 %.");
  }

  @Test
  void pointsAreWhereTheAxesSay() {
    Document document =
        document(List.of(new Line("a", false, List.of(new Point(0, 0), new Point(1, 1)))));

    Element line = (Element) document.getElementsByTagName("g").item(0);
    Element path = (Element) line.getElementsByTagName("path").item(0);
    assertThat(path.getAttribute("d")).isEqualTo("M72.0 416.0L620.0 72.0");
    assertThat(texts(document, "text")).contains("0 %", "100 %");
  }

  @Test
  void equalLinesAreDrawnOnceAndNamedTwice() {
    List<Point> points = List.of(new Point(0.5, 0.5));
    Document document =
        document(
            List.of(
                new Line("a", false, points),
                new Line("b", false, points),
                new Line("c", true, points)));

    assertThat(texts(document, "text")).contains("a", "b = a", "c");
    assertThat(texts(document, "title")).noneMatch(title -> title.startsWith("b"));
  }
}
