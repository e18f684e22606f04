/** Remembers the last result of a pure function whose argument rarely changes, such as the current second. */
export function rememberLast<Argument, Result>(
  compute: (argument: Argument) => Result,
): (argument: Argument) => Result {
  let last: { readonly argument: Argument; readonly result: Result } | undefined;
  return (argument) => {
    if (last === undefined || last.argument !== argument) last = { argument, result: compute(argument) };
    return last.result;
  };
}
