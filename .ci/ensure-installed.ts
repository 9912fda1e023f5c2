// Installs an app that has a lockfile of its own (apps/bench, apps/docs), when a command first needs it.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * Installs the package in a folder, unless it is installed from the same lockfile. Output of pnpm goes to
 * standard error. A second attempt follows a failed one, because registries abort downloads.
 *
 * @returns false if the installation failed
 */
export async function ensureInstalled(folder: string): Promise<boolean> {
  const stamp = join(folder, 'node_modules', '.installed-from')
  const hash = createHash('sha256')
  for (const file of ['package.json', 'pnpm-lock.yaml', 'pnpm-workspace.yaml']) {
    hash.update(await readFile(join(folder, file)))
  }
  const wanted = hash.digest('hex')
  if ((await readFile(stamp, 'utf8').catch(() => undefined)) === wanted) return true
  process.stderr.write(`Installing ${folder}, which happens once …\n`)
  if (!(await install(folder)) && !(await install(folder))) return false
  await writeFile(stamp, wanted)
  return true
}

async function install(cwd: string): Promise<boolean> {
  const args = ['--yes', 'pnpm@12', 'install', '--frozen-lockfile']
  const child = spawn('npx', args, { cwd, stdio: ['ignore', 2, 2] })
  const [code] = await once(child, 'close')
  return code === 0
}
