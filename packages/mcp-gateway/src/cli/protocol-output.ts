// Keeps standard output for the protocol: a graph, a library or a child process may write to its file descriptor.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, fstatSync } from 'node:fs'
import { Socket } from 'node:net'
import { constants } from 'node:os'
import type { Writable } from 'node:stream'

const DESCRIPTOR = 'MCP_GATEWAY_OUTPUT_DESCRIPTOR'
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/** Returns whether the command has to run in a process of its own. A debugger stays with the process that it started. */
export function needsOwnProcess(args: readonly string[]): boolean {
  const isDebugged = process.execArgv.some((arg) => arg.startsWith('--inspect'))
  return args.includes('--stdio') && process.env[DESCRIPTOR] === undefined && !isDebugged
}

/**
 * Runs this command in a process whose standard output is the standard error of this one. It writes the protocol to
 * another file descriptor, which `protocolOutput()` opens. Node cannot replace the descriptor of its own process.
 *
 * @returns the exit code
 */
export async function runInOwnProcess(): Promise<number> {
  const child = spawn(process.execPath, [...process.execArgv, ...process.argv.slice(1)], {
    stdio: ['inherit', 2, 2, 1],
    env: { ...process.env, [DESCRIPTOR]: '3' },
  })
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      if (isPassedOn(signal, process.platform, process.stdin.isTTY)) child.kill(signal)
    })
  }
  await once(child, 'exit')
  const { exitCode, signalCode } = child
  return exitCode ?? 128 + (signalCode === null ? 0 : constants.signals[signalCode])
}

/**
 * Returns whether the child needs a signal of this process. A terminal sends Ctrl+C to both processes, and the console of
 * Windows all of its events: a second signal would end the child at once, and on Windows `kill()` does so with any signal.
 */
export function isPassedOn(
  signal: NodeJS.Signals,
  platform: NodeJS.Platform,
  isTerminal: boolean | undefined,
): boolean {
  if (platform === 'win32') return false
  return signal !== 'SIGINT' || isTerminal !== true
}

/** Opens the output for the protocol. `undefined`: it is standard output. */
export function protocolOutput(): Writable | undefined {
  const descriptor = Number(process.env[DESCRIPTOR])
  // Another gateway that a graph starts must not use it.
  delete process.env[DESCRIPTOR]
  if (!Number.isInteger(descriptor)) return undefined
  const stat = fstatSync(descriptor)
  return stat.isFile() || stat.isCharacterDevice()
    ? createWriteStream('', { fd: descriptor })
    : new Socket({ fd: descriptor, readable: false, writable: true })
}
