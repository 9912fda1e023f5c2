import type { CommandContext } from './command.ts'

/** What came first of the two ways to ask a process to end. */
export interface StopSignals {
  readonly stopped: Promise<NodeJS.Signals>
  undo(): void
}

/** With the exit codes of a process that they killed. */
const SIGNALS = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const

/** The first SIGTERM or SIGINT resolves `stopped`; a second one ends the process at once. */
export function stopSignals({
  onSignal,
  exit,
}: Pick<CommandContext, 'onSignal' | 'exit'>): StopSignals {
  let isAsked = false
  let undos: readonly (() => void)[] = []
  const stopped = new Promise<NodeJS.Signals>((resolve) => {
    undos = SIGNALS.map(([signal, code]) =>
      onSignal(signal, () => {
        if (isAsked) exit(code)
        isAsked = true
        resolve(signal)
      }),
    )
  })
  return { stopped, undo: () => undos.forEach((undo) => undo()) }
}
