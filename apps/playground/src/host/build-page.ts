import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const APP = fileURLToPath(new URL('../../', import.meta.url))
const SOURCES = ['src/page', 'src/timeline', 'vite.config.ts']

/** Builds the page, unless the last build is newer than its sources. Returns its folder. */
export async function buildPage(): Promise<string> {
  const folder = join(APP, 'dist/page')
  const builtAt = await changedAt(join(folder, 'index.html'))
  const changes = await Promise.all(SOURCES.map((source) => changedAt(join(APP, source))))
  if (builtAt > Math.max(...changes)) return folder
  const { build } = await import('vite') // slow to load, and mostly not needed
  await build({
    configFile: join(APP, 'vite.config.ts'),
    root: join(APP, 'src/page'),
    logLevel: 'error',
  })
  return folder
}

/** Time of the newest change of a file, or of the files in a folder. 0 if it is not there. */
async function changedAt(path: string): Promise<number> {
  const info = await stat(path).catch(() => undefined)
  if (!info?.isDirectory()) return info?.mtimeMs ?? 0
  const names = await readdir(path)
  const times = await Promise.all(names.map((name) => changedAt(join(path, name))))
  return Math.max(0, ...times)
}
