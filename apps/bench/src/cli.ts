import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { ParseArgsConfig } from 'node:util'

/** The folder of this package. Processes that are started from here run in it. */
export const HOME: string = fileURLToPath(new URL('..', import.meta.url))

const STAMP = `${HOME}node_modules/.installed-from`

/** An error that the user can correct. It is shown as one line, without a stack trace. */
export class UserError extends Error {
  override readonly name = 'UserError'
}

/** Runs a command to its end, and sets the exit code of the process. */
export async function runCommand(
  name: string,
  command: (args: readonly string[]) => Promise<number>,
): Promise<void> {
  try {
    const args = process.argv.slice(2).filter((arg) => arg !== '--') // pnpm passes it on
    process.exitCode = await command(args)
  } catch (error) {
    if (error instanceof UserError) process.stderr.write(`${name}: ${error.message}\n`)
    else console.error(error)
    process.exitCode = 1
  }
}

/** @throws UserError that names the wrong option. */
export function commandOptionsFrom<const Config extends ParseArgsConfig>(
  config: Config,
  command: string,
): ReturnType<typeof parseArgs<Config>> {
  try {
    return parseArgs(config)
  } catch (cause) {
    const text = cause instanceof Error ? cause.message : String(cause)
    throw new UserError(`${text.split('\n')[0] ?? ''} (see pnpm ${command} --help)`, { cause })
  }
}

/**
 * Installs this package, unless it is installed from the same lockfile. Output of pnpm goes to standard
 * error. A second attempt follows a failed one, because registries abort downloads.
 *
 * @throws UserError if the installation fails.
 */
export async function ensureInstalled(): Promise<void> {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'pnpm-lock.yaml', 'pnpm-workspace.yaml']) {
    hash.update(await readFile(HOME + file))
  }
  const wanted = hash.digest('hex')
  if ((await readFile(STAMP, 'utf8').catch(() => undefined)) === wanted) return
  process.stderr.write('Installing apps/bench, which happens once …\n')
  if (!(await install()) && !(await install())) {
    throw new UserError('apps/bench could not be installed: see the output of pnpm above')
  }
  await writeFile(STAMP, wanted)
}

async function install(): Promise<boolean> {
  const args = ['--yes', 'pnpm@12', 'install', '--frozen-lockfile']
  const child = spawn('npx', args, { cwd: HOME, stdio: ['ignore', 2, 2] })
  const [code] = await once(child, 'close')
  return code === 0
}
