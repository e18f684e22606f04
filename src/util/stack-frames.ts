/** A frame as V8 prints it: function, then file, line and column. */
const frame =
  /^ {4}at (?:[\w$.<>[\]# ]{1,120} \()?(?:file:\/\/\/|node:|\/)[^\s():]{1,250}:\d{1,7}:\d{1,7}\)?$/;

const maxFrames = 20;

/**
 * The stack of an error without its message, which may hold data.
 *
 * V8 prints the message before the frames, and its lines may look like frames. So the message is removed first, and
 * then only lines in the format of a frame are kept.
 */
export function safeStackFrames(error: Error): readonly string[] {
  const stack = error.stack ?? '';
  const at = stack.indexOf(error.message);
  const afterMessage = at === -1 ? stack : stack.slice(at + error.message.length);
  return afterMessage
    .split('\n')
    .filter((line) => frame.test(line))
    .slice(0, maxFrames)
    .map((line) => line.trim());
}
