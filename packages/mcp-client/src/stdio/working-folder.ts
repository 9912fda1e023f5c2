import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { isAbsolute, join, posix, win32 } from 'node:path'
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

/**
 * Where a child runs: where it was told to, or in a private folder that is made for it. Never where this
 * process happens to run.
 *
 * @throws StdioError for a `cwd` that is no folder
 */
export async function workingFolder(options: WorkingFolderOptions): Promise<WorkingFolder> {
  const { cwd, cacheFolder = userCacheFolder(process.platform), label } = options
  if (cwd !== undefined) {
    await assertFolder(cwd)
    return { path: cwd, [Symbol.asyncDispose]: async () => {} }
  }
  const path = join(cacheFolder, label.replaceAll(/[^\w.-]/g, '_').replace(/^\.+/, '_'))
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
export function folderFrom(field: string, value: unknown): string {
  const text = textFrom(field, value)
  if (!isAbsolute(text) || text.includes('\0')) throw new FieldError(`${field} is no absolute path`)
  return text
}

/** Node blames the command where it is the folder that is not there. */
async function assertFolder(path: string): Promise<void> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new StdioError('UNREACHABLE', `its cwd ${path} cannot be used`, { cause })
  })
  if (!found.isDirectory()) throw new StdioError('UNREACHABLE', `its cwd ${path} is no folder`)
}
