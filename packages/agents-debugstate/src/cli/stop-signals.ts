import type { CommandContext } from './command.ts'

/** What came first of the two ways to ask a process to end. */
export interface StopSignals extends Disposable {
  readonly stopped: Promise<NodeJS.Signals>
}

/** The first SIGTERM or SIGINT resolves `stopped`; a second one ends the process at once. */
export function stopSignals({ onSignal, exit }: CommandContext): StopSignals {
  let count = 0
  let undo: readonly (() => void)[] = []
  const stopped = new Promise<NodeJS.Signals>((resolve) => {
    undo = SIGNALS.map(([signal, code]) =>
      onSignal(signal, () => {
        if (++count === 1) resolve(signal)
        else exit(code)
      }),
    )
  })
  return {
    stopped,
    [Symbol.dispose]: () => {
      for (const take of undo) take()
    },
  }
}

/** With the exit codes of a process that they killed. */
const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const
