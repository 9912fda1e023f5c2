import { execFile } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { chromium } from 'playwright-core'
import type { Browser } from 'playwright-core'

const INSTALL = fileURLToPath(new URL('../../../.ci/chromium', import.meta.url))
const PROGRAMS = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const PATHS_IN_CACHE = [
  'chrome-linux/chrome',
  'chrome-linux64/chrome',
  'chrome-mac/Chromium.app/Contents/MacOS/Chromium',
  'chrome-win/chrome.exe',
  'chrome-win64/chrome.exe',
]

/**
 * Starts a Chromium without a window: the one that `PLAYGROUND_CHROMIUM` names, the system's, or one of
 * Playwright's. Where there is none, root installs Debian's package. Returns `undefined` if that is not
 * possible, and says so.
 *
 * @throws if there is none and `CI` is set, so that no test is left out by mistake
 */
export async function startChromium(): Promise<Browser | undefined> {
  const executablePath = findChromium() ?? (await installChromium())
  if (executablePath === undefined) {
    const message =
      'There is no Chromium: set PLAYGROUND_CHROMIUM to its path, or install the package "chromium"'
    if (process.env['CI']) throw new Error(message)
    process.stderr.write(`${message}. Everything that needs a browser is left out.\n`)
    return undefined
  }
  return chromium.launch({
    executablePath,
    args: ['--disable-gpu', '--disable-quic', '--disable-background-networking'],
  })
}

function findChromium(): string | undefined {
  const chosen = process.env['PLAYGROUND_CHROMIUM']
  if (chosen) {
    if (existsSync(chosen)) return chosen
    throw new Error(`PLAYGROUND_CHROMIUM names a file that does not exist: ${chosen}`)
  }
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  const onPath = PROGRAMS.flatMap((name) => folders.map((folder) => join(folder, name)))
  return [...onPath, ...listPlaywrightCache()].find((path) => existsSync(path))
}

/** Programs of all revisions that Playwright has downloaded for any project, newest first. */
function listPlaywrightCache(): string[] {
  const caches: Partial<Record<NodeJS.Platform, string>> = {
    darwin: 'Library/Caches/ms-playwright',
    win32: 'AppData/Local/ms-playwright',
  }
  const cache =
    process.env['PLAYWRIGHT_BROWSERS_PATH'] ??
    join(homedir(), caches[process.platform] ?? '.cache/ms-playwright')
  if (!existsSync(cache)) return []
  return readdirSync(cache)
    .filter((name) => name.startsWith('chromium-'))
    .toSorted()
    .toReversed()
    .flatMap((name) => PATHS_IN_CACHE.map((path) => join(cache, name, path)))
}

async function installChromium(): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return undefined
  process.stderr.write('There is no Chromium for the browser tests: .ci/chromium installs one…\n')
  try {
    await promisify(execFile)(INSTALL)
  } catch (error) {
    process.stderr.write(`.ci/chromium failed: ${String(error)}\n`)
  }
  return findChromium()
}
