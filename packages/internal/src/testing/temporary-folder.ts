import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface TemporaryFolder extends AsyncDisposable {
  /** Without symbolic links: some servers compare paths. */
  readonly path: string
  /** Returns the path of a file in it. */
  file(...names: string[]): string
}

/** Creates a folder that is removed, with what it contains, when it is disposed. */
export async function temporaryFolder(): Promise<TemporaryFolder> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'mcp-sessions-')))
  return {
    path,
    file: (...names) => join(path, ...names),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  }
}
