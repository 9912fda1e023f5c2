import { fulfilledWithin } from '@x/internal'
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcessWithoutNullStreams, SpawnOptionsWithoutStdio } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, constants, statSync } from 'node:fs'
import { isAbsolute, posix, win32 } from 'node:path'
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

/** Functions of the operating system that start and end programs. Tests replace them. */
export interface ChildSystem {
  readonly platform: NodeJS.Platform
  /** Environment of this process. */
  readonly environment: Variables
  readonly isExecutable: (file: string) => boolean
  readonly start: (
    file: string,
    args: readonly string[],
    options: SpawnOptionsWithoutStdio,
  ) => ChildProcessWithoutNullStreams
  /** Starts a program, and ignores its result. */
  readonly run: (file: string, args: readonly string[]) => void
  /** Runs a program before this process exits. Blocks for at most 2 s. */
  readonly runBeforeExit: (file: string, args: readonly string[]) => void
  /** `process.kill`. A negative id is a process group. */
  readonly kill: (pid: number, signal: NodeJS.Signals | 0) => boolean
}

const BEFORE_EXIT_MS = 2000

export const thisSystem: ChildSystem = {
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
  start: (file, args, options) => spawn(file, [...args], { ...options, stdio: 'pipe' }),
  run(file, args) {
    spawn(file, [...args], { stdio: 'ignore', windowsHide: true }).on('error', () => {})
  },
  runBeforeExit(file, args) {
    spawnSync(file, [...args], { stdio: 'ignore', windowsHide: true, timeout: BEFORE_EXIT_MS })
  },
  kill: (pid, signal) => process.kill(pid, signal),
}

/** Returns the full path of a Windows program. Windows searches a bare name in the current folder first. */
export function windowsProgram(
  name: string,
  { environment }: Pick<ChildSystem, 'environment'>,
): string {
  return win32.join(
    getVariable(environment, 'SYSTEMROOT', 'win32') ?? 'C:\\Windows',
    'System32',
    name,
  )
}

export interface PrepareOptions {
  readonly server: ServerCommand
  readonly secrets: Readonly<Record<string, string>>
  /** Folder in which the child runs. */
  readonly cwd: string
  readonly stdio: StdioOptions
  readonly log: (message: string) => void
  /** @default that of this process */
  readonly system?: ChildSystem | undefined
  /** @default the one that all servers share */
  readonly shellPath?: LoginShellPath | undefined
}

/** Returns the environment of the child. Its `PATH` is also used to find the command. */
export async function createEnvironment(options: PrepareOptions): Promise<Record<string, string>> {
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
  const isGiven =
    stdio.path !== undefined || getVariable(server.env, 'PATH', platform) !== undefined
  if (stdio.pathFrom !== 'login-shell' || platform === 'win32' || isGiven) return environment
  if (findFile(options, environment) !== undefined) return environment
  try {
    const wasKnown = shellPath.isKnown
    const inShell = withPath(await shellPath.get())
    if (!wasKnown || findFile(options, inShell) !== undefined) return inShell
    shellPath.forget() // the command may have been installed since
    return withPath(await shellPath.get())
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    log(`${why}: the command is searched in the PATH of this process`)
    return environment
  }
}

/** Starts the child. Its events `spawn` and `error` report whether that succeeded. @throws StdioError */
export function startChild(
  options: PrepareOptions,
  environment: Record<string, string>,
): ChildProcessWithoutNullStreams {
  const { server, cwd, system = thisSystem } = options
  const { platform } = system
  // Other systems search `PATH` themselves, and give a better reason for a file that cannot be executed.
  const file = platform === 'win32' ? findFile(options, environment) : server.command
  if (file === undefined) throw new StdioError('UNREACHABLE', NOT_FOUND)
  try {
    const comSpec =
      getVariable(environment, 'COMSPEC', platform) ?? windowsProgram('cmd.exe', system)
    const plan = spawnPlan(file, server.args, { platform, comSpec })
    return system.start(plan.file, plan.args, {
      cwd,
      env: environment,
      detached: platform !== 'win32', // makes the child the leader of a process group
      windowsHide: true,
      windowsVerbatimArguments: plan.windowsVerbatimArguments,
    })
  } catch (error) {
    throw toStartError(error)
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

function findFile(
  { server, cwd, system = thisSystem }: PrepareOptions,
  environment: Record<string, string>,
): string | undefined {
  const { platform, isExecutable } = system
  return findCommand(server.command, {
    platform,
    path: getVariable(environment, 'PATH', platform),
    pathExt: getVariable(environment, 'PATHEXT', platform),
    cwd,
    isExecutable,
  })
}

export interface ChildEnvironmentOptions {
  readonly platform: NodeJS.Platform
  /** Environment of this process. */
  readonly inherited: Variables
  /** Later objects override earlier ones. */
  readonly added: readonly Variables[]
}

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
 * Creates the environment of a child: an allow list of inherited variables, and the added variables. Tokens
 * in the environment of this process do not reach the server.
 */
export function childEnvironment(options: ChildEnvironmentOptions): Record<string, string> {
  const { platform, inherited, added } = options
  const environment: Record<string, string> = {}
  const set = (name: string, value: string | undefined): void => {
    if (value === undefined) return
    const known = findName(environment, name, platform)
    if (known !== undefined) delete environment[known] // on Windows `Path` is `PATH`
    environment[name] = value
  }
  for (const name of platform === 'win32' ? INHERITED_WINDOWS : INHERITED_POSIX) {
    const value = getVariable(inherited, name, platform)
    if (value?.startsWith('()') !== true) set(name, value) // bash exports functions like this
  }
  for (const variables of added) {
    for (const [name, value] of Object.entries(variables)) set(name, value)
  }
  return environment
}

/** Returns a variable. On Windows, names are compared without case. */
export function getVariable(
  variables: Variables,
  name: string,
  platform: NodeJS.Platform,
): string | undefined {
  const known = findName(variables, name, platform)
  return known === undefined ? undefined : variables[known]
}

function findName(
  variables: Variables,
  name: string,
  platform: NodeJS.Platform,
): string | undefined {
  if (Object.hasOwn(variables, name)) return name
  if (platform !== 'win32') return undefined
  const wanted = name.toUpperCase()
  return Object.keys(variables).find((known) => known.toUpperCase() === wanted)
}

export interface CommandSearch {
  readonly platform: NodeJS.Platform
  /** `PATH`. Entries that are not absolute are ignored, also the current folder on Windows. */
  readonly path: string | undefined
  /** `PATHEXT` of Windows. @default '.COM;.EXE;.BAT;.CMD' */
  readonly pathExt?: string | undefined
  /** Base of a relative path. */
  readonly cwd: string
  readonly isExecutable: (file: string) => boolean
}

/** Returns the absolute path of a command, or undefined if it does not exist. */
export function findCommand(command: string, search: CommandSearch): string | undefined {
  const { platform, cwd, isExecutable } = search
  const isWindows = platform === 'win32'
  const paths = isWindows ? win32 : posix
  const hasFolder = isWindows ? /[\\/:]/.test(command) : command.includes('/')
  const folders = (search.path ?? '')
    .split(paths.delimiter)
    .map((folder) => (isWindows ? folder.replaceAll('"', '') : folder))
    .filter((folder) => paths.isAbsolute(folder))
  const places = hasFolder
    ? [paths.resolve(cwd, command)]
    : folders.map((folder) => paths.join(folder, command))
  return places
    .flatMap((place) => (isWindows ? windowsFiles(place, search.pathExt) : [place]))
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

export interface SpawnPlan {
  readonly file: string
  readonly args: readonly string[]
  /** True if the arguments are quoted already. */
  readonly windowsVerbatimArguments: boolean
}

/**
 * Decides how a file is started. On Windows, batch files, such as `npx.cmd` and the shims in
 * `node_modules\.bin`, need `cmd.exe`, and quotes that keep every argument an argument.
 *
 * @param options `comSpec` is the path of `cmd.exe`
 * @throws TypeError for an argument with a line break, which `cmd.exe` does not accept
 */
export function spawnPlan(
  file: string,
  args: readonly string[],
  { platform, comSpec }: { readonly platform: NodeJS.Platform; readonly comSpec: string },
): SpawnPlan {
  const isBatch = platform === 'win32' && /\.(?:bat|cmd)$/i.test(file)
  if (!isBatch) return { file, args, windowsVerbatimArguments: false }
  if (args.some((arg) => /[\r\n]/.test(arg))) {
    throw new TypeError('an argument of a batch file contains a line break: remove it')
  }
  // Escaped twice: a shim puts its arguments into a second command line.
  const line = [escapeForCmd(file), ...args.map((arg) => escapeForCmd(escapeForCmd(quote(arg))))]
  const command = `"${line.join(' ')}"`
  return { file: comSpec, args: ['/d', '/s', '/c', command], windowsVerbatimArguments: true }
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

export interface LoginShellOptions {
  /** `$SHELL`. */
  readonly shell: string | undefined
  readonly environment: NodeJS.ProcessEnv
  /** In milliseconds. @default 3000 */
  readonly limitMs?: number | undefined
}

const SHELL_LIMIT_MS = 3000
const MAX_SHELL_BYTES = 256 * 1024

/**
 * Returns the `PATH` of the user's terminal. Desktop programs are started without it, and do not find `npx`
 * or `uvx`.
 *
 * @throws Error with the reason
 */
export async function readLoginShellPath(options: LoginShellOptions): Promise<string> {
  const { shell, environment, limitMs = SHELL_LIMIT_MS } = options
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
  readLoginShellPath({ shell: process.env['SHELL'], environment: process.env }),
)
