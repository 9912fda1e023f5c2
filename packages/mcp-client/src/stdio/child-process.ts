import { fulfilledWithin } from '@x/internal'
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess, ChildProcessWithoutNullStreams, SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, statSync } from 'node:fs'
import { isAbsolute, posix, win32 } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { StdioError } from '../errors.ts'
import type { ServerCommand } from '../server-config.ts'

/** How servers on stdio (`{ command }`) are started. */
export interface StdioOptions {
  /**
   * Where commands are found. `login-shell`: a command that is not in `PATH` is searched in the `PATH` of the
   * user's login shell, which the server then gets. For desktop programs, which are started with a short
   * `PATH`. @default 'env'
   */
  readonly pathFrom?: 'env' | 'login-shell' | undefined
  /** Replaces the `PATH` of this process. A `PATH` in a server's `env` takes precedence. @default none */
  readonly path?: string | undefined
  /**
   * Absolute path of a folder. Each server without `cwd` gets a folder in it.
   * @default `mcp-client` in the user's cache folder
   */
  readonly cacheFolder?: string | undefined
}

type Variables = Readonly<Record<string, string | undefined>>

/** Parts of the operating system that start and end programs. Tests replace them. */
export interface System {
  readonly platform: NodeJS.Platform
  /** Environment of this process. */
  readonly environment: Variables
  readonly isExecutable: (file: string) => boolean
  /** Starts a program, and ignores its result. */
  readonly run: (file: string, args: readonly string[]) => void
  /** Runs a program before this process exits. Blocks for at most 2 s. */
  readonly runBeforeExit: (file: string, args: readonly string[]) => void
  /** `process.kill`. A negative id is a process group. */
  readonly kill: (pid: number, signal: NodeJS.Signals | 0) => boolean
}

const BEFORE_EXIT_MS = 2000

export const thisSystem: System = {
  platform: process.platform,
  environment: process.env,
  isExecutable(file) {
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  },
  run(file, args) {
    spawn(file, [...args], { stdio: 'ignore', windowsHide: true }).on('error', () => {})
  },
  runBeforeExit(file, args) {
    spawnSync(file, [...args], { stdio: 'ignore', windowsHide: true, timeout: BEFORE_EXIT_MS })
  },
  kill: (pid, signal) => process.kill(pid, signal),
}

/** A program to start. */
export interface Launch {
  readonly server: ServerCommand
  /** Folder in which the child runs. */
  readonly cwd: string
  readonly stdio: StdioOptions
  readonly log: (message: string) => void
}

/** Returns the environment of the child. Its `PATH` is also used to find the command. */
export async function createEnvironment(
  launch: Launch,
  system: System = thisSystem,
  shellPath: LoginShellPath = loginShellPath,
): Promise<Record<string, string>> {
  const { server, stdio, log } = launch
  const { platform } = system
  const withPath = (path: string | undefined): Record<string, string> =>
    childEnvironment(system, [{ PATH: path }, server.env])
  const environment = withPath(stdio.path)
  const isGiven =
    stdio.path !== undefined || getVariable(server.env, 'PATH', platform) !== undefined
  if (stdio.pathFrom !== 'login-shell' || platform === 'win32' || isGiven) return environment
  if (findCommand(launch, environment, system) !== undefined) return environment
  try {
    const wasKnown = shellPath.isKnown
    const inShell = withPath(await shellPath.get())
    if (!wasKnown || findCommand(launch, inShell, system) !== undefined) return inShell
    shellPath.forget() // the command may have been installed since
    return withPath(await shellPath.get())
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    log(`${why}: the command is searched in the PATH of this process`)
    return environment
  }
}

/** Arguments of `spawn()`. */
export interface SpawnPlan {
  readonly file: string
  readonly args: readonly string[]
  readonly options: SpawnOptions & { readonly stdio: 'pipe' }
}

/**
 * Decides how a command is started. On Windows, batch files, such as `npx.cmd` and the shims in
 * `node_modules\.bin`, need `cmd.exe`, and quotes that keep every argument an argument.
 *
 * @throws StdioError if Windows has no such command, or `cmd.exe` does not accept an argument
 */
export function createSpawnPlan(
  launch: Launch,
  environment: Readonly<Record<string, string>>,
  system: System = thisSystem,
): SpawnPlan {
  const { command, args } = launch.server
  const isWindows = system.platform === 'win32'
  // Other systems search `PATH` themselves, and give a better reason for a file that cannot be executed.
  const file = isWindows ? findCommand(launch, environment, system) : command
  if (file === undefined) throw new StdioError('UNREACHABLE', NOT_FOUND)
  const options = {
    cwd: launch.cwd,
    env: environment,
    detached: !isWindows, // makes the child the leader of a process group
    windowsHide: true,
    stdio: 'pipe',
  } as const
  if (!isWindows || !/\.(?:bat|cmd)$/i.test(file)) return { file, args, options }
  if (args.some((arg) => /[\r\n]/.test(arg))) {
    const what = 'an argument of its batch file contains a line break: remove it'
    throw new StdioError('UNREACHABLE', what)
  }
  // Escaped twice: a shim puts its arguments into a second command line.
  const line = [escapeForCmd(file), ...args.map((arg) => escapeForCmd(escapeForCmd(quote(arg))))]
  return {
    file: getVariable(environment, 'COMSPEC', 'win32') ?? windowsProgram('cmd.exe', system),
    args: ['/d', '/s', '/c', `"${line.join(' ')}"`],
    options: { ...options, windowsVerbatimArguments: true },
  }
}

/** Quotes an argument for the C runtime of Windows, where backslashes matter only before a quote. */
function quote(arg: string): string {
  const inner = arg.replaceAll(/(\\*)("|$)/g, (_all, backslashes: string, end: string) =>
    end === '' ? backslashes.repeat(2) : `${backslashes.repeat(2)}\\"`,
  )
  return `"${inner}"`
}

/** Puts a caret before all special characters of `cmd.exe`. Quotes too, so no text is inside quotes. */
function escapeForCmd(text: string): string {
  return text.replaceAll(/[\s"^&|<>()%!;,*?=`[\]]/g, '^$&')
}

/** Returns the full path of a Windows program. Windows searches a bare name in the current folder first. */
export function windowsProgram(name: string, { environment }: Pick<System, 'environment'>): string {
  const root = getVariable(environment, 'SYSTEMROOT', 'win32') ?? 'C:\\Windows'
  return win32.join(root, 'System32', name)
}

/**
 * Starts the child. For most reasons of the operating system, a child without `pid` is returned, and it emits `error`.
 *
 * @throws StdioError for the other reasons, such as arguments that are too long
 */
export function startChild({ file, args, options }: SpawnPlan): ChildProcessWithoutNullStreams {
  try {
    return spawn(file, args, options)
  } catch (cause) {
    throw toStartError(cause)
  }
}

/** Explains why a child could not be started, with the code of the operating system. */
export function toStartError(cause: unknown): StdioError {
  // Node adds all arguments, which may be secrets.
  if (cause instanceof Error) Reflect.deleteProperty(cause, 'spawnargs')
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : undefined
  const why = code ?? (cause instanceof Error ? cause.message : String(cause))
  const message =
    code === 'ENOENT'
      ? NOT_FOUND
      : code === 'EACCES'
        ? 'its command cannot be executed (EACCES): check the permissions of the file'
        : `it could not be started (${why})`
  return new StdioError('UNREACHABLE', message, { cause })
}

const NOT_FOUND = 'its command was not found (ENOENT): install it, or give its full path'

/** Locations of certificate authorities for Node, OpenSSL, Python and curl. None of them is a secret. */
const CERTIFICATES = [
  'CURL_CA_BUNDLE',
  'NODE_EXTRA_CA_CERTS',
  'NODE_USE_SYSTEM_CA',
  'REQUESTS_CA_BUNDLE',
  'SSL_CERT_DIR',
  'SSL_CERT_FILE',
]
const INHERITED_POSIX = ['HOME', 'LOGNAME', 'PATH', 'SHELL', 'TERM', 'USER', ...CERTIFICATES]
const INHERITED_WINDOWS = [
  ...CERTIFICATES,
  'APPDATA',
  'COMSPEC',
  'HOMEDRIVE',
  'HOMEPATH',
  'LOCALAPPDATA',
  'PATH',
  'PATHEXT',
  'PROCESSOR_ARCHITECTURE',
  'PROGRAMFILES',
  'SYSTEMDRIVE',
  'SYSTEMROOT',
  'TEMP',
  'USERNAME',
  'USERPROFILE',
]

/**
 * Creates the environment of a child: an allow list of inherited variables, and `added`, where later objects override
 * earlier ones. Tokens in the environment of this process do not reach the server.
 */
export function childEnvironment(
  { platform, environment }: Pick<System, 'platform' | 'environment'>,
  added: readonly Variables[],
): Record<string, string> {
  const isWindows = platform === 'win32'
  const all = new Map<string, readonly [name: string, value: string]>()
  const set = (name: string, value: string | undefined): void => {
    // On Windows `Path` is `PATH`.
    if (value !== undefined) all.set(isWindows ? name.toUpperCase() : name, [name, value])
  }
  for (const name of isWindows ? INHERITED_WINDOWS : INHERITED_POSIX) {
    const value = getVariable(environment, name, platform)
    if (value?.startsWith('()') !== true) set(name, value) // bash exports functions like this
  }
  for (const variables of added) {
    for (const [name, value] of Object.entries(variables)) set(name, value)
  }
  return Object.fromEntries(all.values())
}

/** Returns a variable. On Windows, names are compared without case. */
export function getVariable(
  variables: Variables,
  name: string,
  platform: NodeJS.Platform,
): string | undefined {
  if (platform !== 'win32') return variables[name]
  return Object.entries(variables).find(([known]) => known.toUpperCase() === name)?.[1]
}

/**
 * Returns the absolute path of a command, or undefined if it does not exist. Entries of `PATH` that are not absolute
 * are ignored, also the current folder on Windows. A relative path starts at `cwd`.
 */
export function findCommand(
  { server: { command }, cwd }: Pick<Launch, 'server' | 'cwd'>,
  environment: Variables,
  { platform, isExecutable }: Pick<System, 'platform' | 'isExecutable'>,
): string | undefined {
  const isWindows = platform === 'win32'
  const paths = isWindows ? win32 : posix
  const hasFolder = isWindows ? /[\\/:]/.test(command) : command.includes('/')
  const path = getVariable(environment, 'PATH', platform) ?? ''
  const folders = (isWindows ? path.replaceAll('"', '') : path)
    .split(paths.delimiter)
    .filter((folder) => paths.isAbsolute(folder))
  const places = hasFolder
    ? [paths.resolve(cwd, command)]
    : folders.map((folder) => paths.join(folder, command))
  const extensions = getVariable(environment, 'PATHEXT', platform)
  return places
    .flatMap((place) => (isWindows ? windowsFiles(place, extensions) : [place]))
    .find((file) => isExecutable(file))
}

/** Returns the files that Windows tries: with each extension in `pathExt`, and as given if it has one of them. */
function windowsFiles(place: string, pathExt = '.COM;.EXE;.BAT;.CMD'): readonly string[] {
  const extensions = pathExt.split(';').filter((extension) => extension.startsWith('.'))
  const given = win32.extname(place).toUpperCase()
  const added = extensions.map((extension) => place + extension.toLowerCase())
  const isComplete = extensions.some((extension) => extension.toUpperCase() === given)
  return isComplete ? [place, ...added] : added
}

const SHELL_LIMIT_MS = 3000
const MAX_SHELL_BYTES = 256 * 1024

/**
 * Returns the `PATH` of the user's terminal. Desktop programs are started without it, and do not find `npx`
 * or `uvx`.
 *
 * @throws Error with the reason
 */
export async function readLoginShellPath(
  environment: Variables,
  limitMs: number = SHELL_LIMIT_MS,
): Promise<string> {
  const { SHELL: shell } = environment
  if (shell === undefined || !isAbsolute(shell)) {
    throw new Error('$SHELL is not the path of a login shell')
  }
  const child = spawn(shell, ['-l', '-c', 'printenv PATH'], {
    cwd: '/',
    env: environment,
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true, // lets the whole process group be ended
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-MAX_SHELL_BYTES)
  })
  let failure: Error | undefined
  child.once('error', (error) => {
    failure = error
  })
  const closed = once(child, 'close').catch(() => {})
  const isClosed = await fulfilledWithin(closed, limitMs)
  child.stdout.destroy()
  const hasExited = child.exitCode !== null || child.signalCode !== null
  if (!hasExited && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
  if (failure !== undefined) {
    throw new Error('The login shell could not be started', { cause: failure })
  }
  // A profile may print other lines first, and start a program that keeps the pipe open.
  const path = output.trimEnd().split('\n').at(-1) ?? ''
  if (!isClosed && !hasExited) {
    throw new Error(`The login shell did not answer within ${limitMs} ms`)
  }
  if (!path.includes('/')) throw new Error('The login shell printed no PATH')
  return path
}

/** Reads the `PATH` of the login shell once. Failures are not kept. */
export class LoginShellPath {
  readonly #read: () => Promise<string>
  #known: Promise<string> | undefined

  constructor(read: () => Promise<string>) {
    this.#read = read
  }

  get isKnown(): boolean {
    return this.#known !== undefined
  }

  get(): Promise<string> {
    const known = (this.#known ??= this.#read())
    known.catch(() => {
      if (this.#known === known) this.forget()
    })
    return known
  }

  forget(): void {
    this.#known = undefined
  }
}

/** `PATH` of the user that runs this process. All servers share it. */
export const loginShellPath: LoginShellPath = new LoginShellPath(() =>
  readLoginShellPath(process.env),
)

const GRACE_MS = 2000
/** Time after SIGKILL. In a container without an init process, killed processes stay as zombies. */
const KILL_MS = 500
const POLL_MS = 20

/**
 * Ends a child and all processes that it started, and resolves when they have exited. It closes the child's
 * input, which asks a server to exit (2025-11-25, lifecycle, shutdown); then sends SIGTERM and SIGKILL to the
 * process group. Windows has no such signals: a child that does not exit is ended by force, with its tree.
 *
 * @param exited settles when the child itself has exited
 */
export async function endTree(
  child: ChildProcess,
  exited: Promise<unknown>,
  { system, graceMs }: { readonly system: System; readonly graceMs: number } = {
    system: thisSystem,
    graceMs: GRACE_MS,
  },
): Promise<void> {
  child.stdin?.end()
  await fulfilledWithin(exited, graceMs)
  const steps = [
    ['SIGTERM', graceMs],
    ['SIGKILL', KILL_MS],
  ] as const
  for (const [signal, ms] of steps) {
    if (!isAlive(child, system)) break
    signalTree(child, signal, system)
    const endsAt = performance.now() + ms
    await fulfilledWithin(exited, ms)
    // Polls, because no event reports the exit of a process that is not our own child.
    while (isAlive(child, system) && performance.now() < endsAt) await sleep(POLL_MS)
  }
  // A process that left the group may still hold the other ends. Open pipes would keep this process alive.
  for (const stream of child.stdio) stream?.destroy()
}

/** Returns whether a process of the tree runs; on Windows, whether the child itself runs. */
function isAlive(child: ChildProcess, { platform, kill }: System): boolean {
  const { pid } = child
  if (pid === undefined) return false
  const isRunning = child.exitCode === null && child.signalCode === null
  if (platform === 'win32' || isRunning) return isRunning
  try {
    return kill(-pid, 0)
  } catch (error) {
    // EPERM: the process became another user, and cannot be signalled.
    return (
      error instanceof Error && 'code' in error && error.code !== 'ESRCH' && error.code !== 'EPERM'
    )
  }
}

/** Signals the process group that the child leads. Windows has no groups; `taskkill` walks the tree. */
function signalTree({ pid }: ChildProcess, signal: 'SIGTERM' | 'SIGKILL', system: System): void {
  if (pid === undefined) return
  if (system.platform === 'win32') return system.run(...taskkill(pid, system))
  try {
    system.kill(-pid, signal)
  } catch {
    // It exited first.
  }
}

function taskkill(pid: number, system: System): [file: string, args: readonly string[]] {
  return [windowsProgram('taskkill.exe', system), ['/pid', String(pid), '/T', '/F']]
}

const guarded = new Map<ChildProcess, System>()

function endAll(): void {
  for (const [child, system] of guarded) {
    if (system.platform !== 'win32') signalTree(child, 'SIGTERM', system)
    else if (child.pid !== undefined) system.runBeforeExit(...taskkill(child.pid, system))
  }
}

/** Ends the child when this process exits without `dispose()`. Returns the undo function. */
export function endWithProcess(child: ChildProcess, system: System = thisSystem): () => void {
  if (guarded.size === 0) process.on('exit', endAll)
  guarded.set(child, system)
  return () => {
    guarded.delete(child)
    if (guarded.size === 0) process.off('exit', endAll)
  }
}
