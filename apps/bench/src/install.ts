import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { UserError } from './user-error.ts'

/** The folder of this package; what is started from here runs in it. */
export const HOME: string = fileURLToPath(new URL('..', import.meta.url))

const STAMP = `${HOME}node_modules/.installed-from`

/**
 * Installs this package unless that was done from the same lockfile. Whatever is said meanwhile goes to
 * standard error. Tried twice, because registries abort downloads.
 *
 * @throws UserError if it cannot be installed.
 */
export async function ensureInstalled(): Promise<void> {
  const wanted = await fingerprint()
  if ((await readFile(STAMP, 'utf8').catch(() => undefined)) === wanted) return
  process.stderr.write('Installing apps/bench, this once …\n')
  if (!(await install()) && !(await install())) {
    throw new UserError('apps/bench could not be installed: see what pnpm says above')
  }
  await writeFile(STAMP, wanted)
}

async function fingerprint(): Promise<string> {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'pnpm-lock.yaml', 'pnpm-workspace.yaml']) {
    hash.update(await readFile(HOME + file))
  }
  return hash.digest('hex')
}

async function install(): Promise<boolean> {
  const args = ['--yes', 'pnpm@12', 'install', '--frozen-lockfile']
  const child = spawn('npx', args, { cwd: HOME, stdio: ['ignore', 2, 2] })
  const [code] = await once(child, 'close')
  return code === 0
}
