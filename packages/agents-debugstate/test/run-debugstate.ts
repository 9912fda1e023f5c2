import { EventEmitter } from 'node:events'
import { runCommand } from '../src/cli/program.ts'
import { MemoryTerminal } from './memory-terminal.ts'

/** `debugstate` in this process, on terminals of the test. */
export interface DebugStateRun {
  readonly stdout: MemoryTerminal
  readonly stderr: MemoryTerminal
  readonly exitCode: Promise<number>
  signal(signal: NodeJS.Signals): void
}

export interface RunOptions {
  readonly env?: Record<string, string>
  readonly isTTY?: boolean
}

export function runDebugState(
  args: readonly string[],
  { env = {}, isTTY = false }: RunOptions = {},
): DebugStateRun {
  const signals = new EventEmitter()
  const stdout = new MemoryTerminal({ isTTY, env })
  const stderr = new MemoryTerminal({ isTTY, env })
  const exitCode = runCommand({
    args,
    env,
    stdout,
    stderr,
    onSignal: (signal, listener) => {
      signals.on(signal, listener)
      return () => void signals.off(signal, listener)
    },
    exit: (code) => stderr.line(`exit ${code}`),
  })
  return { stdout, stderr, exitCode, signal: (signal) => void signals.emit(signal) }
}

/** What a command that ends by itself has written. */
export async function debugState(
  args: readonly string[],
  options: RunOptions = {},
): Promise<{ readonly exitCode: number; readonly out: string; readonly err: string }> {
  const run = runDebugState(args, options)
  const exitCode = await run.exitCode
  return { exitCode, out: run.stdout.text, err: run.stderr.text }
}
