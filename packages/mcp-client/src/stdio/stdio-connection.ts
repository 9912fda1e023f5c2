import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, posix, win32 } from 'node:path'
import { commandLabel } from '../server-config.ts'
import { parseFolder } from '../server-fields.ts'
import { StdioError } from '../errors.ts'
import { getVariable } from './start-child.ts'
import { StdioTransport } from './stdio-transport.ts'
import type { StdioSettings } from './stdio-transport.ts'

/** Starts the processes of one server, one for each session. Disposing of it waits until they have exited. */
export class StdioConnection implements AsyncDisposable {
  readonly #settings: StdioSettings
  readonly #transports = new Set<StdioTransport>()
  #epoch = 0
  #folder: Promise<WorkingFolder> | undefined

  constructor(settings: StdioSettings) {
    this.#settings = settings
  }

  createTransport(): StdioTransport {
    const transport: StdioTransport = new StdioTransport(this.#settings, {
      epoch: ++this.#epoch,
      folder: () => this.#getFolder(),
      onGone: () => this.#transports.delete(transport),
    })
    this.#transports.add(transport)
    return transport
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#transports, (transport) => transport.close()))
    const folder = await this.#folder?.catch(() => undefined)
    await folder?.[Symbol.asyncDispose]()
  }

  async #getFolder(): Promise<string> {
    const { server, stdio } = this.#settings
    const folder = (this.#folder ??= createWorkingFolder({
      cwd: server.cwd,
      cacheFolder: stdio?.cacheFolder,
      label: commandLabel(server.command),
    }))
    try {
      return (await folder).path
    } catch (error) {
      if (this.#folder === folder) this.#folder = undefined
      throw error
    }
  }
}

export interface WorkingFolder extends AsyncDisposable {
  readonly path: string
}

export interface WorkingFolderOptions {
  readonly cwd: string | undefined
  /** @default that of the user */
  readonly cacheFolder: string | undefined
  /** Name of the server. */
  readonly label: string
}

/** Names that Windows reserves for devices, with any extension. */
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i

/**
 * Returns the folder in which a child runs: its `cwd`, or a private folder that is created for it. Never the
 * current folder of this process.
 *
 * @throws StdioError for a `cwd` that is not a folder, and for a cache folder that is not absolute
 */
export async function createWorkingFolder(options: WorkingFolderOptions): Promise<WorkingFolder> {
  const { cwd, cacheFolder = userCacheFolder(process.platform), label } = options
  if (cwd !== undefined) {
    await assertFolder(cwd)
    return { path: cwd, [Symbol.asyncDispose]: async () => {} }
  }
  const path = join(parseCacheFolder(cacheFolder), toFolderName(label))
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
    return { path, [Symbol.asyncDispose]: async () => {} }
  } catch {
    // In containers, the home folder is often read-only. A temporary folder is removed at the end.
    const temporary = await mkdtemp(join(tmpdir(), 'mcp-client-'))
    return {
      path: temporary,
      [Symbol.asyncDispose]: () => rm(temporary, { recursive: true, force: true }),
    }
  }
}

/** Cache folder of the user, as each platform defines it. */
export function userCacheFolder(
  platform: NodeJS.Platform,
  environment: NodeJS.ProcessEnv = process.env,
  home: string = homedir(),
): string {
  const paths = platform === 'win32' ? win32 : posix
  const name = platform === 'win32' ? 'LOCALAPPDATA' : 'XDG_CACHE_HOME'
  const given = platform === 'darwin' ? undefined : getVariable(environment, name, platform)
  if (given !== undefined && paths.isAbsolute(given)) return paths.join(given, 'mcp-client')
  if (platform === 'win32') return paths.join(home, 'AppData', 'Local', 'mcp-client')
  return paths.join(home, platform === 'darwin' ? 'Library/Caches' : '.cache', 'mcp-client')
}

function toFolderName(label: string): string {
  const name = label.replaceAll(/[^\w.-]/g, '_').replace(/^\.+/, '_')
  return name.replace(WINDOWS_DEVICE, '_$&').replace(/\.+$/, '_')
}

function parseCacheFolder(path: string): string {
  try {
    return parseFolder('stdio.cacheFolder', path)
  } catch (cause) {
    throw new StdioError('CONFIG', 'its working folder cannot be created', { cause })
  }
}

/** Checks `cwd`, because Node reports a missing folder as a missing command. */
async function assertFolder(path: string): Promise<void> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new StdioError('UNREACHABLE', `its cwd ${path} cannot be used: create the folder`, {
      cause,
    })
  })
  if (!found.isDirectory()) {
    throw new StdioError('UNREACHABLE', `its cwd ${path} is not a folder: give the path of one`)
  }
}
