// The loops of cpu.peak, disk.io and network.tcp in Java, run as one source file: java Loops.java KIND KEY=VALUE …
// Its start takes longer than a loop, so a call runs several (loops=read:random,…) one after the other. It prints a line of
// KEY=VALUE for each: which loop, what was done (work), in how many seconds, and what it used.

import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.atomic.AtomicLong;

public class Loops {
    /** Numbers that a thread computes with: they stay in its first cache. */
    static final int NUMBERS = 256;
    /** Turns of the loop between two looks at the clock. */
    static final int TURNS = 64;
    /** Seconds before the timed part, in which the code is compiled. */
    static final double WARM_UP = 0.5;

    interface Task {
        /** Works until the time has come, and returns what it did meanwhile. */
        long until(long end) throws Exception;
    }

    interface Maker {
        Task make(int index) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> asked = new HashMap<>();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            asked.put(pair[0], pair[1]);
        }
        switch (arguments[0]) {
            case "cpu" -> cpu(asked);
            case "disk" -> disk(asked);
            case "tcp" -> tcp(asked);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** Runs a task on each thread, all at once, first to warm up and then timed. */
    static void timed(Map<String, String> asked, String loop, Maker maker, double each, String more)
            throws Exception {
        int threads = Integer.parseInt(asked.get("threads"));
        double seconds = Double.parseDouble(asked.get("seconds"));
        CyclicBarrier barrier = new CyclicBarrier(threads);
        AtomicLong work = new AtomicLong();
        AtomicLong first = new AtomicLong(Long.MAX_VALUE);
        AtomicLong last = new AtomicLong(Long.MIN_VALUE);
        Throwable[] failed = new Throwable[1];
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int index = i;
            all[i] = new Thread(() -> {
                try {
                    Task task = maker.make(index);
                    barrier.await();
                    task.until(System.nanoTime() + (long) (WARM_UP * 1e9));
                    barrier.await();
                    long begin = System.nanoTime();
                    work.addAndGet(task.until(begin + (long) (seconds * 1e9)));
                    long end = System.nanoTime();
                    first.accumulateAndGet(begin, Math::min);
                    last.accumulateAndGet(end, Math::max);
                } catch (BrokenBarrierException e) {
                    // Another thread failed, and says why.
                } catch (Throwable e) {
                    failed[0] = e;
                    barrier.reset();
                }
            });
            all[i].start();
        }
        for (Thread thread : all) {
            thread.join();
        }
        if (failed[0] != null) {
            System.err.println(failed[0]);
            System.exit(1);
        }
        double took = (last.get() - first.get()) / 1e9;
        System.out.println("loop=" + loop + " work=" + work.get() * each + " seconds=" + took + " threads=" + threads
            + " runtime=" + System.getProperty("java.version") + more);
    }

    static volatile double sink;

    static void cpu(Map<String, String> asked) throws Exception {
        for (String kernel : asked.get("loops").split(",")) kernel(asked, kernel);
    }

    static void kernel(Map<String, String> asked, String kernel) throws Exception {
        Maker maker = switch (kernel) {
            case "add:i32" -> index -> {
                int[] x = new int[NUMBERS];
                for (int i = 0; i < NUMBERS; i++) x[i] = i * 7 + index;
                return counted(() -> addInts(x, 3, TURNS), () -> sink = x[1]);
            };
            case "add:f64" -> index -> {
                double[] x = numbers(index);
                return counted(() -> addDoubles(x, 1e-9, TURNS), () -> sink = x[1]);
            };
            case "fma:f64" -> index -> {
                double[] x = numbers(index);
                return counted(() -> fuse(x, 0.999999, 1e-6, TURNS), () -> sink = x[1]);
            };
            case "mix:f64" -> index -> {
                double[] x = numbers(index);
                double[] y = numbers(index + 1);
                return counted(() -> mix(x, y, 1e-9, 0.9999999, TURNS), () -> sink = x[1] + y[1]);
            };
            default -> throw new IllegalArgumentException(kernel);
        };
        double operations = (double) NUMBERS * TURNS * ("fma:f64".equals(kernel) || "mix:f64".equals(kernel) ? 2 : 1);
        timed(asked, kernel, maker, operations, "");
    }

    static double[] numbers(int index) {
        double[] x = new double[NUMBERS];
        for (int i = 0; i < NUMBERS; i++) x[i] = 1.0 + i * 1e-3 + index;
        return x;
    }

    static Task counted(Runnable piece, Runnable used) {
        return end -> {
            long pieces = 0;
            do {
                piece.run();
                pieces++;
            } while (System.nanoTime() < end);
            used.run();
            return pieces;
        };
    }

    static void addInts(int[] x, int a, int turns) {
        for (int t = 0; t < turns; t++)
            for (int i = 0; i < x.length; i++) x[i] += a;
    }

    static void addDoubles(double[] x, double a, int turns) {
        for (int t = 0; t < turns; t++)
            for (int i = 0; i < x.length; i++) x[i] += a;
    }

    static void fuse(double[] x, double a, double b, int turns) {
        for (int t = 0; t < turns; t++)
            for (int i = 0; i < x.length; i++) x[i] = Math.fma(x[i], a, b);
    }

    static void mix(double[] x, double[] y, double a, double b, int turns) {
        for (int t = 0; t < turns; t++) {
            for (int i = 0; i < x.length; i++) x[i] += a;
            for (int i = 0; i < y.length; i++) y[i] *= b;
        }
    }

    static void disk(Map<String, String> asked) throws Exception {
        long size = Long.parseLong(asked.get("size"));
        Path path = Path.of("loops.tmp");
        try {
            fill(path, size);
            for (String loop : asked.get("loops").split(",")) transfers(asked, loop, path, size);
        } finally {
            Files.deleteIfExists(path);
        }
    }

    static void fill(Path path, long size) throws Exception {
        try (FileChannel filled = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            ByteBuffer bytes = ByteBuffer.allocateDirect(1 << 20);
            SplittableRandom noise = new SplittableRandom(1);
            while (bytes.remaining() >= 8) bytes.putLong(noise.nextLong());
            for (long at = 0; at < size; ) {
                bytes.clear().limit((int) Math.min(bytes.capacity(), size - at));
                at += filled.write(bytes, at);
            }
            filled.force(true);
        }
    }

    static void transfers(Map<String, String> asked, String loop, Path path, long size) throws Exception {
        int block = Integer.parseInt(asked.get("block"));
        boolean write = loop.startsWith("write:");
        boolean random = loop.endsWith(":random");
        int threads = Integer.parseInt(asked.get("threads"));
        Set<OpenOption> options = new HashSet<>(Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE));
        // FileChannel transfers whole blocks of the file system past the page cache, and nothing smaller.
        int unit = (int) Files.getFileStore(path).getBlockSize();
        boolean direct = "direct".equals(asked.get("cache")) && block % unit == 0;
        if (direct) options.add(com.sun.nio.file.ExtendedOpenOption.DIRECT);
        int align = direct ? unit : 1;
        try (FileChannel file = FileChannel.open(path, options)) {
            Maker maker = index -> {
                ByteBuffer bytes = ByteBuffer.allocateDirect(block + align);
                ByteBuffer buffer = direct ? bytes.alignedSlice(align) : bytes;
                long places = size / threads / block;
                long begin = index * places * block;
                SplittableRandom random_ = new SplittableRandom(index);
                long[] next = {0};
                return end -> {
                    long done = 0;
                    do {
                        long place = random ? random_.nextLong(places) : next[0]++ % places;
                        buffer.clear().limit(block);
                        long at = begin + place * block;
                        int moved = write ? file.write(buffer, at) : file.read(buffer, at);
                        if (moved != block) throw new IllegalStateException("moved " + moved + " bytes");
                        done++;
                    } while (System.nanoTime() < end);
                    return done;
                };
            };
            timed(asked, loop, maker, 1.0, " block=" + block + " size=" + size + " direct=" + direct);
        }
    }

    static void tcp(Map<String, String> asked) throws Exception {
        for (String message : asked.get("loops").split(",")) stream(asked, message);
        System.exit(0);
    }

    static void stream(Map<String, String> asked, String size) throws Exception {
        int message = Integer.parseInt(size);
        try (ServerSocket server = new ServerSocket(0, 64, InetAddress.getLoopbackAddress())) {
            Maker maker = index -> {
                Socket near = new Socket(server.getInetAddress(), server.getLocalPort());
                near.setTcpNoDelay(true);
                OutputStream out = near.getOutputStream();
                byte[] bytes = new byte[message];
                Thread sender = new Thread(() -> {
                    try {
                        while (true) out.write(bytes);
                    } catch (Exception e) {
                        // The receiver has gone: the end.
                    }
                });
                sender.setDaemon(true);
                sender.start();
                Socket far = server.accept();
                InputStream in = far.getInputStream();
                byte[] received = new byte[Math.max(message, 1 << 16)];
                return end -> {
                    long count = 0;
                    do {
                        int n = in.read(received);
                        if (n < 0) throw new IllegalStateException("the stream ended");
                        count += n;
                    } while (System.nanoTime() < end);
                    return count;
                };
            };
            timed(asked, size, maker, 8.0, " message=" + message);
        }
    }
}
