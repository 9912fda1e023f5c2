import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, posix, win32 } from 'node:path'
import { FieldError, textFrom } from '../directory/server-fields.ts'
import { valueIn } from './child-environment.ts'
import { StdioError } from './stdio-error.ts'

export interface WorkingFolder extends AsyncDisposable {
  readonly path: string
}

export interface WorkingFolderOptions {
  readonly cwd: string | undefined
  /** @default that of the user */
  readonly cacheFolder: string | undefined
  /** Names the server. */
  readonly label: string
}

/** With a drive or a host: a path that only begins with a backslash depends on the drive of this process. */
const WINDOWS_ABSOLUTE = /^(?:[A-Za-z]:[\\/]|[\\/]{2}[^\\/])/
/** Names that are no files on Windows, whatever their extension. */
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i

/**
 * Where a child runs: where it was told to, or in a private folder that is made for it. Never where this
 * process happens to run.
 *
 * @throws StdioError for a `cwd` that is no folder, and for a cache folder that is no absolute path
 */
export async function workingFolder(options: WorkingFolderOptions): Promise<WorkingFolder> {
  const { cwd, cacheFolder = userCacheFolder(process.platform), label } = options
  if (cwd !== undefined) {
    await assertFolder(cwd)
    return { path: cwd, [Symbol.asyncDispose]: async () => {} }
  }
  const path = join(absolute(cacheFolder), folderNameOf(label))
  try {
    await mkdir(path, { recursive: true, mode: 0o700 })
    return { path, [Symbol.asyncDispose]: async () => {} }
  } catch {
    // In containers the home is often not to be written to; then what is in it need not stay either.
    const temporary = await mkdtemp(join(tmpdir(), 'mcp-client-'))
    return {
      path: temporary,
      [Symbol.asyncDispose]: () => rm(temporary, { recursive: true, force: true }),
    }
  }
}

/** The place that each platform has for what can be made again. */
export function userCacheFolder(
  platform: NodeJS.Platform,
  environment: NodeJS.ProcessEnv = process.env,
  home: string = homedir(),
): string {
  const paths = platform === 'win32' ? win32 : posix
  const name = platform === 'win32' ? 'LOCALAPPDATA' : 'XDG_CACHE_HOME'
  const given = platform === 'darwin' ? undefined : valueIn(environment, name, platform)
  if (given !== undefined && paths.isAbsolute(given)) return paths.join(given, 'mcp-client')
  if (platform === 'win32') return paths.join(home, 'AppData', 'Local', 'mcp-client')
  return paths.join(home, platform === 'darwin' ? 'Library/Caches' : '.cache', 'mcp-client')
}

/** @throws FieldError for a folder that depends on where this process runs */
export function folderFrom(
  field: string,
  value: unknown,
  platform: NodeJS.Platform = process.platform,
): string {
  const text = textFrom(field, value)
  const isAbsolute = platform === 'win32' ? WINDOWS_ABSOLUTE.test(text) : posix.isAbsolute(text)
  if (!isAbsolute || text.includes('\0')) throw new FieldError(`${field} is no absolute path`)
  return text
}

function folderNameOf(label: string): string {
  const name = label.replaceAll(/[^\w.-]/g, '_').replace(/^\.+/, '_')
  return name.replace(WINDOWS_DEVICE, '_$&').replace(/\.+$/, '_')
}

function absolute(cacheFolder: string): string {
  try {
    return folderFrom('stdio.cacheFolder', cacheFolder)
  } catch (cause) {
    throw new StdioError('CONFIG', 'its folder cannot be had', { cause })
  }
}

/** Node blames the command where it is the folder that is not there. */
async function assertFolder(path: string): Promise<void> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new StdioError('UNREACHABLE', `its cwd ${path} cannot be used`, { cause })
  })
  if (!found.isDirectory()) throw new StdioError('UNREACHABLE', `its cwd ${path} is no folder`)
}
