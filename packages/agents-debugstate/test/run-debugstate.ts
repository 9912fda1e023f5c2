import { EventEmitter, once } from 'node:events'
import { Readable, Writable } from 'node:stream'
import { runCommand } from '../src/cli/program.ts'

/** Output that the test reads. */
class MemoryStream extends Writable {
  #text = ''

  get text(): string {
    return this.#text
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.#text += bytes.toString()
    this.emit('written')
    done()
  }

  /** Resolves when the stream has received this text. */
  async has(part: string): Promise<void> {
    while (!this.#text.includes(part)) await once(this, 'written')
  }
}

/** Runs `debugstate` in this process, with streams of the test. */
export interface DebugStateRun {
  readonly stdout: MemoryStream
  readonly stderr: MemoryStream
  readonly exitCode: Promise<number>
  signal(signal: NodeJS.Signals): void
}

export function runDebugState(
  args: readonly string[],
  env: Record<string, string> = {},
): DebugStateRun {
  const signals = new EventEmitter()
  const [stdout, stderr] = [new MemoryStream(), new MemoryStream()]
  const exitCode = runCommand({
    args,
    env,
    stdin: Readable.from([]),
    stdout,
    stderr,
    onSignal: (signal, listener) => {
      signals.on(signal, listener)
      return () => void signals.off(signal, listener)
    },
    exit: (code) => stderr.write(`exit ${code}\n`),
  })
  return { stdout, stderr, exitCode, signal: (signal) => void signals.emit(signal) }
}

/** Runs a command to its end, and returns its output. */
export async function debugState(
  args: readonly string[],
): Promise<{ readonly exitCode: number; readonly out: string; readonly err: string }> {
  const run = runDebugState(args)
  const exitCode = await run.exitCode
  return { exitCode, out: run.stdout.text, err: run.stderr.text }
}
