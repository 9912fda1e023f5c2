export interface SpawnPlan {
  readonly file: string
  readonly args: readonly string[]
  /** The arguments are one piece of a command line already, and not to be quoted by Node. */
  readonly windowsVerbatimArguments: boolean
}

export interface SpawnPlanOptions {
  readonly platform: NodeJS.Platform
  /** `%ComSpec%`, which runs batch files. */
  readonly comSpec: string
}

/**
 * How a program that was found is started. On Windows, batch files, such as the shims `npx.cmd` and those
 * in `node_modules\.bin`, cannot be started by themselves: `cmd.exe` runs them, which needs quotes of its
 * own so that no argument can be anything else than an argument.
 *
 * @throws TypeError for an argument with a line break, which `cmd.exe` cannot be given
 */
export function spawnPlan(
  file: string,
  args: readonly string[],
  { platform, comSpec }: SpawnPlanOptions,
): SpawnPlan {
  const isBatch = platform === 'win32' && /\.(?:bat|cmd)$/i.test(file)
  if (!isBatch) return { file, args, windowsVerbatimArguments: false }
  if (args.some((arg) => /[\r\n]/.test(arg))) {
    throw new TypeError('An argument of a batch file holds a line break')
  }
  // The shims hand their arguments on in a command line of their own, which is read once more.
  const line = [escaped(file), ...args.map((arg) => escaped(escaped(quoted(arg))))].join(' ')
  return { file: comSpec, args: ['/d', '/s', '/c', `"${line}"`], windowsVerbatimArguments: true }
}

/** As programs on Windows take their command line apart: backslashes count only before a quote. */
function quoted(arg: string): string {
  const inner = arg.replaceAll(/(\\*)("|$)/g, (_all, backslashes: string, quote: string) =>
    quote === '' ? backslashes.repeat(2) : `${backslashes.repeat(2)}\\"`,
  )
  return `"${inner}"`
}

/** With a caret before all that means something to `cmd.exe`, the quotes too: so nothing is inside quotes. */
function escaped(text: string): string {
  return text.replaceAll(/[\s"^&|<>()%!;,*?=`[\]]/g, '^$&')
}
