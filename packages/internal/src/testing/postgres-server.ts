import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { programIn, startKept } from './kept-process.ts'

const run = promisify(execFile)

/** Debian and Ubuntu do not put the programs of a server on the `PATH`. */
const DEBIAN = '/usr/lib/postgresql'
/** User id of the unprivileged system user. */
const NOBODY = 65_534
/** Ends a start that hangs. */
const START_MS = 240_000

/** A running PostgreSQL server with an empty database. It loses all data when it ends. */
export interface PostgresServer extends AsyncDisposable {
  /** Connects to a socket in a temporary folder, as a superuser without a password. */
  readonly url: string
  readonly pid: number
}

/**
 * Creates a database in a temporary folder, and starts PostgreSQL on it. It has no port: only the socket in that folder.
 * Root starts it as the user `postgres`, or as an unprivileged user. Without PostgreSQL on this machine, returns
 * `undefined` and writes a line to stderr.
 *
 * @param env `PATH` and `REQUIRE_POSTGRES`
 * @throws if it does not start, with its output; also if there is none and `REQUIRE_POSTGRES` is set
 */
export async function startPostgresServer(
  env: Readonly<Record<string, string | undefined>> = process.env,
): Promise<PostgresServer | undefined> {
  const folders = [...(env['PATH'] ?? '').split(delimiter), ...debianFolders(env)]
  const program = programIn(folders, 'postgres')
  const initdb = programIn(folders, 'initdb')
  if (program === undefined || initdb === undefined) {
    const message = 'There is no PostgreSQL server on this machine'
    if (env['REQUIRE_POSTGRES']) throw new Error(`${message}, and REQUIRE_POSTGRES is set`)
    process.stderr.write(`${message}: everything that needs PostgreSQL is left out\n`)
    return undefined
  }
  const folder = await mkdtemp(join(tmpdir(), 'postgres-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  try {
    const uid = await otherUser() // PostgreSQL refuses to run as root
    if (uid !== undefined) await chown(folder, uid, -1)
    const data = join(folder, 'data')
    const settings = '--username=postgres --auth=trust --encoding=UTF8 --no-locale --no-sync'
    await run(initdb, [...settings.split(' '), '--pgdata', data], { uid, timeout: START_MS })
    const options = ['listen_addresses=', 'fsync=off', `unix_socket_directories=${folder}`]
    const server = await startKept(
      [program, '-D', data, ...options.flatMap((option) => ['-c', option])],
      // After SIGKILL, its child processes and its shared memory would stay.
      { readyLine: 'ready to accept connections', startMs: START_MS, killSignal: 'QUIT', uid },
    )
    return {
      url: `postgresql://postgres@localhost/postgres?host=${encodeURIComponent(folder)}`,
      pid: server.pid,
      async [Symbol.asyncDispose]() {
        await server.kill()
        await remove()
      },
    }
  } catch (error) {
    await remove()
    throw error
  }
}

/** Returns the folders of Debian's versions, the newest first. A test sets another `PATH` to have none. */
function debianFolders(env: Readonly<Record<string, string | undefined>>): readonly string[] {
  if (env !== process.env) return []
  try {
    const versions = readdirSync(DEBIAN).toSorted((one, other) => Number(other) - Number(one))
    return versions.map((version) => join(DEBIAN, version, 'bin'))
  } catch {
    return []
  }
}

/** Returns the user id that the server must have. `undefined`: that of this process. */
async function otherUser(): Promise<number | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const { stdout } = await run('id', ['-u', 'postgres']).catch(() => ({ stdout: String(NOBODY) }))
  return Number(stdout)
}
