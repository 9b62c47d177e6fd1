package example.acker;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParseException;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** JSON as maps, lists, texts, numbers, booleans and null. */
final class Json {
  private static final JsonFactory FACTORY = new JsonFactory();

  private Json() {}

  /** Writes a document by a generator. */
  interface Writer {
    void write(JsonGenerator to) throws IOException;
  }

  static byte[] write(Writer writer) {
    ByteArrayOutputStream written = new ByteArrayOutputStream(256);
    try (JsonGenerator generator = FACTORY.createGenerator(written)) {
      writer.write(generator);
    } catch (IOException e) {
      throw new UncheckedIOException(e); // texts were checked, and memory does not fail
    }
    return written.toByteArray();
  }

  static byte[] write(Object document) {
    return write(to -> writeValue(to, document));
  }

  private static void writeValue(JsonGenerator to, Object value) throws IOException {
    if (value instanceof Map<?, ?> members) {
      to.writeStartObject();
      for (Map.Entry<?, ?> each : members.entrySet()) {
        to.writeFieldName((String) each.getKey());
        writeValue(to, each.getValue());
      }
      to.writeEndObject();
    } else if (value instanceof Iterable<?> elements) {
      to.writeStartArray();
      for (Object each : elements) {
        writeValue(to, each);
      }
      to.writeEndArray();
    } else {
      to.writePOJO(value); // of texts, numbers, booleans and null only: the generator knows them
    }
  }

  /** Reads an object; throws an IOException for anything else. */
  @SuppressWarnings("unchecked") // members are named by texts
  static Map<String, Object> readObject(byte[] document) throws IOException {
    if (read(document) instanceof Map<?, ?> found) {
      return (Map<String, Object>) found;
    }
    throw new IOException("it is no JSON object");
  }

  static Object read(byte[] document) throws IOException {
    try (JsonParser parser = FACTORY.createParser(document)) {
      parser.nextToken();
      Object found = readValue(parser);
      if (parser.nextToken() != null) {
        throw new JsonParseException(parser, "more follows the document");
      }
      return found;
    }
  }

  private static Object readValue(JsonParser from) throws IOException {
    JsonToken token = from.currentToken();
    if (token == null) {
      throw new JsonParseException(from, "the document ends early");
    }
    return switch (token) {
      case START_OBJECT -> readMembers(from);
      case START_ARRAY -> readElements(from);
      case VALUE_STRING -> from.getText();
      case VALUE_NUMBER_INT, VALUE_NUMBER_FLOAT -> from.getNumberValue();
      case VALUE_TRUE -> Boolean.TRUE;
      case VALUE_FALSE -> Boolean.FALSE;
      case VALUE_NULL -> null;
      default -> throw new JsonParseException(from, "unexpected " + token);
    };
  }

  private static Map<String, Object> readMembers(JsonParser from) throws IOException {
    Map<String, Object> members = new LinkedHashMap<>();
    while (from.nextToken() != JsonToken.END_OBJECT) {
      String name = from.currentName();
      from.nextToken();
      members.put(name, readValue(from));
    }
    return members;
  }

  private static List<Object> readElements(JsonParser from) throws IOException {
    List<Object> elements = new ArrayList<>();
    while (from.nextToken() != JsonToken.END_ARRAY) {
      elements.add(readValue(from));
    }
    return elements;
  }
}
