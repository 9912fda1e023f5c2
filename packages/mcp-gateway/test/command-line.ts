import { PassThrough } from 'node:stream'

import { runCommand } from '../src/cli/program.ts'

/** A command that runs in this process, with streams and signals of its own. */
export interface Running {
  readonly code: Promise<number>
  readonly stdin: PassThrough
  readonly signal: (name: NodeJS.Signals) => void
  readonly exits: readonly number[]
  /** Resolves when this was written. */
  readonly said: (stream: 'stdout' | 'stderr', pattern: RegExp) => Promise<RegExpExecArray>
  readonly text: (stream: 'stdout' | 'stderr') => string
}

export function start(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Running {
  const streams = { stdout: new PassThrough(), stderr: new PassThrough() }
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    streams[name].on('data', (chunk) => {
      texts[name] += String(chunk)
    })
  }
  const stdin = new PassThrough()
  const listeners = new Map<string, () => void>()
  const exits: number[] = []
  const code = runCommand({
    args,
    env,
    stdin,
    ...streams,
    onSignal: (signal, listener) => {
      listeners.set(signal, listener)
      return () => listeners.delete(signal)
    },
    exit: (status) => exits.push(status),
  })
  return {
    code,
    stdin,
    exits,
    signal: (name) => listeners.get(name)?.(),
    text: (stream) => texts[stream],
    said: (stream, pattern) =>
      new Promise((resolve) => {
        const look = (): void => {
          const found = pattern.exec(texts[stream])
          if (found === null) return
          streams[stream].off('data', look)
          resolve(found)
        }
        streams[stream].on('data', look)
        look()
      }),
  }
}

/** Until its end. */
export async function run(
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
): Promise<{ code: number; out: string; err: string }> {
  const running = start(args, env)
  const code = await running.code
  return { code, out: running.text('stdout'), err: running.text('stderr') }
}
