// A shop that uses the client. Run with: javac -d classes Main.java, and java -cp classes Main http://127.0.0.1:8080/sandbox/gw [PORT [SECONDS]]
// Then: curl -d client_orderid=order-7 -d amount=12.50 -d currency=EUR http://127.0.0.1:PORT/pay
// It has no key and no secret. A real one stores its orders in a database, and authenticates those who may pay and refund.
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import countersign.Countersign;
import countersign.Countersign.Next;
import countersign.Countersign.Response;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;

public class Main {
    private final Countersign countersign;
    private final Duration patience;
    private final HttpServer server;
    private final Map<String, Map<String, String>> orders = new ConcurrentHashMap<>();
    private final Map<String, Next> settled = new ConcurrentHashMap<>();
    /** What to do about those that were not processed. */
    private final Map<String, Next> unprocessed = new ConcurrentHashMap<>();
    /** Those that are not decided, with the serial number of each, by order. */
    private final Map<String, String> refunds = new ConcurrentHashMap<>();

    Main(String url, int port, Duration patience) throws IOException {
        countersign = new Countersign(url, "acme", "1234", null); // those of the demo
        this.patience = patience;
        server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", this::handle);
    }

    String url() {
        return "http://127.0.0.1:" + server.getAddress().getPort();
    }

    /** An order of the shop. One that is for a person is none: the payment of its ID is another. */
    private Map<String, String> stored(String id) {
        return unprocessed.get(id) == Next.ASK_SUPPORT ? Map.of() : orders.getOrDefault(id, Map.of());
    }

    /** A real shop stores the order, and when it was sent, before this. */
    Response pay(Map<String, String> form) throws InterruptedException {
        String id = form.getOrDefault("client_orderid", "");
        String amount = form.getOrDefault("amount", ""), currency = form.getOrDefault("currency", "");
        var order = Map.of("client_orderid", id, "amount", amount, "currency", currency);
        boolean isKnown = orders.putIfAbsent(id, order) != null;
        if (isKnown && !stored(id).equals(order))
            return Response.none("not-sent", null).with("order ID reused", Next.ASK_SUPPORT);
        // What was begun is only queried. What was not processed is sent again, unless a callback has settled it.
        if (isKnown && (settled.containsKey(id) || unprocessed.remove(id) == null)) return untilDecided(order);
        form.put("server_callback_url", url() + "/callback");
        Response sent = countersign.pay("v4/transfer", form);
        if (sent.next() != Next.QUERY) {
            unprocessed.put(id, sent.next());
            return sent;
        }
        // A real shop shows it to the payer. It does not prove that there is no order.
        String message = sent.field("error-message");
        if (!message.isEmpty()) System.out.println(printable(message));
        return untilDecided(order);
    }

    private Response untilDecided(Map<String, String> order) throws InterruptedException {
        Response found = countersign.untilDecided(order, patience);
        settle(order.get("client_orderid"), found);
        return found;
    }

    /**
     * A real shop delivers here, or not: once for each order, whatever comes first or again. The control of a callback is
     * no key for that: a refund has the one of its payment.
     */
    private void settle(String id, Response found) {
        boolean isFinal = !stored(id).isEmpty() && Set.of(Next.PAID, Next.NOT_PAID).contains(found.next());
        if (isFinal && settled.putIfAbsent(id, found.next()) == null)
            System.out.printf("settled: %s is %s%n", printable(id), found.next());
    }

    /** One at a time of an order. A real shop gives each refund an ID of its own, stores it, and sends one ID once. */
    Response refund(Map<String, String> form) throws InterruptedException {
        String id = form.getOrDefault("client_orderid", "");
        if (refunds.putIfAbsent(id, "") != null)
            return Response.none("not-sent", null).with("a refund is not decided", Next.ASK_SUPPORT);
        form.put("server_callback_url", url() + "/callback");
        Response found = countersign.refund(form, serialNumber -> refunds.put(id, serialNumber), patience);
        var isDecided = Set.of(Next.REFUNDED, Next.NOT_REFUNDED, Next.SEND_AGAIN, Next.FIX).contains(found.next());
        if (isDecided) refunds.remove(id);
        return found;
    }

    void callback(HttpExchange exchange, String received) throws IOException, InterruptedException {
        var found = countersign.callback(received, this::stored);
        if (found.found() == null) System.out.println(found.result());
        else report(found, found.found());
        exchange.sendResponseHeaders(found.respondWith(), -1);
        // The gateway does not repeat what it got 200 for. Of an order that is not the shop's, anyone can send one.
        boolean isUndecided = found.respondWith() == 200 && found.found().next() == Next.QUERY;
        if (isUndecided && !stored(found.order().get("client_orderid")).isEmpty())
            report(found, untilDecided(found.order()));
    }

    private void report(Countersign.Callback callback, Response found) {
        String id = callback.order().get("client_orderid");
        System.out.printf("%s: %s is %s: %s%n", callback.result(), printable(id), found.next(), found.row());
        settle(id, found);
    }

    private static String printable(String text) {
        return '"' + text.replaceAll("[\\p{Cntrl}\"]", "?") + '"';
    }

    private void handle(HttpExchange exchange) throws IOException {
        try (exchange) {
            String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
            String query = exchange.getRequestURI().getRawQuery();
            switch (exchange.getRequestMethod() + " " + exchange.getRequestURI().getPath()) {
                case "POST /pay" -> respond(exchange, pay(formOf(body)));
                case "POST /refund" -> respond(exchange, refund(formOf(body)));
                // The gateway sends a callback by GET, and a payer's browser a redirect by POST.
                case "GET /callback" -> callback(exchange, query == null ? "" : query);
                case "POST /callback" -> callback(exchange, body);
                default -> exchange.sendResponseHeaders(404, -1);
            }
        } catch (InterruptedException error) {
            throw new IOException(error);
        }
    }

    private static void respond(HttpExchange exchange, Response found) throws IOException {
        String about = found.orderId() != null ? found.orderId() : found.reason() != null ? found.reason() : "";
        String line = "%s: %s %s %s%n".formatted(found.next(), found.row(), about, found.message());
        byte[] text = line.getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(200, text.length);
        exchange.getResponseBody().write(text);
    }

    private static Map<String, String> formOf(String body) {
        var form = new HashMap<String, String>();
        for (String pair : body.split("&")) {
            String[] parts = pair.split("=", 2);
            if (parts.length == 2) form.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
        }
        return form;
    }

    public static void main(String[] arguments) throws IOException {
        int port = arguments.length > 1 ? Integer.parseInt(arguments[1]) : 0;
        int seconds = arguments.length > 2 ? Integer.parseInt(arguments[2]) : 900;
        var shop = new Main(arguments[0], port, Duration.ofSeconds(seconds));
        shop.server.start();
        System.out.println(shop.url());
    }
}
