// Makes the pictures of the READMEs in docs/pictures: screenshots of the page, and a timeline as SVG.
import { mkdir, stat } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import type { Page } from 'playwright-core'
import { buildPage } from '../src/host/build-page.ts'
import { Playground } from '../src/host/playground.ts'
import { createWeb, listen } from '../src/host/web.ts'
import { startChromium } from './chromium.ts'

const FOLDER = fileURLToPath(new URL('../../../docs/pictures/', import.meta.url))
const MAX_BYTES = 200_000

await mkdir(FOLDER, { recursive: true })
await using playground = await Playground.start({ env: { PLAYGROUND_MODEL: 'scripted' } })
await using web = await listen(createWeb(playground, await buildPage()), 0)

const say = (text: string): Promise<void> => playground.run({ type: 'say', text })
await say('Add two apples to my basket')
await playground.run({ type: 'trouble', trouble: { name: 'forget-sessions', server: 'basket' } })
await say('Add three pears to my basket')
await playground.run({ type: 'trouble', trouble: { name: 'kill-process', process: 'agent' } })
await say('Show me the receipt')

const browser = await startChromium()
if (browser === undefined) process.exitCode = 1
try {
  await take('playground', 'light', async (page) => {
    const download = page.waitForEvent('download')
    await page.getByRole('button', { name: 'Export SVG' }).click()
    await (await download).saveAs(`${FOLDER}timeline.svg`)
  })
  await take('playground-dark', 'dark')
  await say('Check out')
  await take('playground-narrow', 'light', async (page) => {
    await page.setViewportSize({ width: 380, height: 700 })
    await page.getByLabel('Name').fill('Ada')
  })
} finally {
  await browser?.close()
}

async function take(
  name: string,
  colorScheme: 'light' | 'dark',
  prepare?: (page: Page) => Promise<void>,
): Promise<void> {
  const context = await browser?.newContext({
    viewport: { width: 1310, height: 666 },
    colorScheme,
    reducedMotion: 'reduce',
  })
  const page = await context?.newPage()
  if (page === undefined) return
  await page.goto(web.url)
  await page.locator('[role=option][data-kind=resume]').last().waitFor({ state: 'attached' })
  await prepare?.(page)
  const path = `${FOLDER}${name}.png`
  await page.screenshot({ path })
  const { size } = await stat(path)
  console.log(`${name}.png: ${Math.round(size / 1000)} kB`)
  if (size > MAX_BYTES)
    throw new Error(`${path} has ${size} bytes: at most ${MAX_BYTES} are allowed`)
}
