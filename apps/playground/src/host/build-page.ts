import { globSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const APP = fileURLToPath(new URL('../../', import.meta.url))
const SOURCES = '{vite.config.ts,src/page/**,src/timeline/**}'

/** Builds the page, unless the last build is newer than its sources. Returns its folder. */
export async function buildPage(): Promise<string> {
  const folder = join(APP, 'dist/page')
  const builtAt = changedAt(join(folder, 'index.html'))
  const sources = globSync(SOURCES, { cwd: APP })
  if (sources.every((file) => changedAt(join(APP, file)) < builtAt)) return folder
  const { build } = await import('vite') // slow to load, and mostly not needed
  await build({
    configFile: join(APP, 'vite.config.ts'),
    root: join(APP, 'src/page'),
    logLevel: 'error',
  })
  return folder
}

/** Time of the last change of a file. 0 if it is not there. */
function changedAt(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}
