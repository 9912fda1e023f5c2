import type { ChildProcessWithoutNullStreams } from 'node:child_process'
import { childEnvironment, valueIn } from './child-environment.ts'
import { thisSystem, windowsProgram } from './child-system.ts'
import type { ChildSystem } from './child-system.ts'
import { findCommand } from './find-command.ts'
import { loginShellPath } from './login-shell-path.ts'
import type { LoginShellPath } from './login-shell-path.ts'
import { spawnPlan } from './spawn-plan.ts'
import { StdioError } from './stdio-error.ts'
import type { Secrets } from '../secret-source.ts'
import type { StdioOptions } from './stdio-options.ts'

/** A server that is a program. */
export interface ServerCommand {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string | undefined
}

export interface PrepareOptions {
  readonly server: ServerCommand
  readonly secrets: Secrets
  /** Where it runs. */
  readonly cwd: string
  readonly stdio: StdioOptions
  readonly log: (message: string) => void
  /** @default that of this process */
  readonly system?: ChildSystem | undefined
  /** @default that of the user, known to all servers */
  readonly shellPath?: LoginShellPath | undefined
}

/** The environment of the child; its `PATH` is also where its command is looked for. */
export async function environmentOf(options: PrepareOptions): Promise<Record<string, string>> {
  const { server, secrets, stdio, log } = options
  const { system = thisSystem, shellPath = loginShellPath } = options
  const { platform } = system
  const withPath = (path: string | undefined): Record<string, string> =>
    childEnvironment({
      platform,
      inherited: system.environment,
      added: [{ PATH: path }, server.env, secrets],
    })
  const environment = withPath(stdio.path)
  const isGiven = stdio.path !== undefined || valueIn(server.env, 'PATH', platform) !== undefined
  if (stdio.pathFrom !== 'login-shell' || platform === 'win32' || isGiven) return environment
  if (isFound(options, environment)) return environment
  try {
    const wasKnown = shellPath.isKnown
    const inShell = withPath(await shellPath.get())
    if (!wasKnown || isFound(options, inShell)) return inShell
    shellPath.forget()
    return withPath(await shellPath.get())
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    log(`${why}: the command is looked for in the PATH of this process`)
    return environment
  }
}

/** Starts it; whether that succeeds, its events `spawn` and `error` tell. @throws StdioError */
export function startChild(
  options: PrepareOptions,
  environment: Record<string, string>,
): ChildProcessWithoutNullStreams {
  const { server, cwd, system = thisSystem } = options
  const { platform } = system
  // Everywhere else the system looks by itself, and says best why something cannot be executed.
  const file = platform === 'win32' ? found(options, environment) : server.command
  if (file === undefined) {
    throw new StdioError('UNREACHABLE', 'its command was not found (ENOENT)')
  }
  try {
    const comSpec = valueIn(environment, 'COMSPEC', platform) ?? windowsProgram('cmd.exe', system)
    const plan = spawnPlan(file, server.args, { platform, comSpec })
    return system.start(plan.file, plan.args, {
      cwd,
      env: environment,
      detached: platform !== 'win32', // the leader of a group that can be ended as one
      windowsHide: true,
      windowsVerbatimArguments: plan.windowsVerbatimArguments,
    })
  } catch (error) {
    throw startErrorFrom(error)
  }
}

/** Why a child could not be started, by the system's own words for it. */
export function startErrorFrom(cause: unknown): StdioError {
  // Node adds all arguments to it, and they may hold secrets.
  if (cause instanceof Error) Reflect.deleteProperty(cause, 'spawnargs')
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
  const what =
    code === 'ENOENT'
      ? 'its command was not found'
      : code === 'EACCES'
        ? 'its command may not be executed'
        : 'it could not be started'
  const why = code ?? (cause instanceof Error ? cause.message : String(cause))
  return new StdioError('UNREACHABLE', `${what} (${why})`, { cause })
}

function isFound(options: PrepareOptions, environment: Record<string, string>): boolean {
  return found(options, environment) !== undefined
}

function found(
  { server, cwd, system = thisSystem }: PrepareOptions,
  environment: Record<string, string>,
): string | undefined {
  const { platform, isExecutable } = system
  return findCommand(server.command, {
    platform,
    path: valueIn(environment, 'PATH', platform),
    pathExt: valueIn(environment, 'PATHEXT', platform),
    cwd,
    isExecutable,
  })
}
