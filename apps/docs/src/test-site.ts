// Opens the built site in Chromium. Its files are answered from the folder, and no other address is reachable:
// the site must need no network.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, Page } from 'playwright-core'
import { startChromium } from '../../playground/test/chromium.ts'
import { entriesOf, groups, INDEX, siteAddress, sitePages } from './pages.ts'

const ORIGIN = 'http://site.example'
const WIDE = { width: 1280, height: 800 }
const NARROW = { width: 380, height: 780 }
/** Each theme and each width is tested by axe once: their pairs would take twice the time. */
const LOOKS = [
  { viewport: NARROW, colorScheme: 'light' },
  { viewport: WIDE, colorScheme: 'dark' },
] as const
const API_PAGES = ['/api/', '/api/mcp-client/', '/api/mcp-client/classes/McpClient']

/** What a reader types into the search: an error code, options, a setting, a function. */
const SEARCHES = ['OUTCOME_UNKNOWN', 'onSessionLost', 'terminateOnClose', 'shutdownGraceMs']

/** Pages that are open at the same time. */
const TABS = 2

/** Returns a sentence for each problem of the site in a folder. */
export async function testSite(folder: string): Promise<readonly string[]> {
  if (!existsSync(join(folder, 'index.html'))) return ['Build the site first: pnpm run docs']
  const browser = await startChromium()
  if (browser === undefined) return [] // it has said so
  const problems: string[] = []
  const withAxe = new Set(pagesOfEachKind())
  const addresses = [...new Set([...withAxe, ...sitePages().map(siteAddress)])] // the slow ones first
  const waiting = addresses.values()
  try {
    await Promise.all(
      Array.from({ length: TABS }, async () => {
        const page = await openOffline({ browser, folder, problems })
        // All tabs take from one iterator, so that each page is opened once.
        for (const address of waiting) {
          const found = await testPage(page, address, withAxe.has(address))
          problems.push(...found.map((text) => `${address}: ${text}`))
        }
      }),
    )
    problems.push(...(await testSearch(await openOffline({ browser, folder, problems }))))
    console.log(`${addresses.length} pages were opened, ${withAxe.size} of them tested by axe`)
  } finally {
    await browser.close()
  }
  return problems.toSorted()
}

/** The start page, the index, the first page of each group, and pages of the API reference. */
function pagesOfEachKind(): readonly string[] {
  const first = groups().flatMap((group) =>
    entriesOf([group])
      .filter(({ path }) => path.endsWith('.md'))
      .slice(0, 1),
  )
  return ['/', siteAddress(INDEX), ...first.map(({ path }) => siteAddress(path)), ...API_PAGES]
}

interface Site {
  readonly browser: Browser
  readonly folder: string
  /** Problems of pages are added here. */
  readonly problems: string[]
}

async function openOffline({ browser, folder, problems }: Site): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', colorScheme: 'light' })
  await context.route('**', (route) => {
    const { origin, pathname } = new URL(route.request().url())
    const path = join(folder, decodeURIComponent(pathname))
    const file = [path, `${path}.html`, join(path, 'index.html')].find(
      (name) => existsSync(name) && /\.\w+$/.test(name),
    )
    if (origin === ORIGIN && file !== undefined) return route.fulfill({ path: file })
    problems.push(`The site asks for ${route.request().url()}`)
    return route.abort()
  })
  context.setDefaultTimeout(240_000) // only ends what hangs
  const page = await context.newPage()
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.message}`))
  return page
}

async function testPage(page: Page, address: string, withAxe: boolean): Promise<string[]> {
  try {
    await page.setViewportSize(NARROW)
    await page.goto(ORIGIN + address)
  } catch (error) {
    return [`cannot be opened: ${String(error).split('\n')[0]}`]
  }
  const problems = [...(await tooWide(page)), ...(await emptyDiagrams(page))]
  if (!withAxe) return problems
  for (const { viewport, colorScheme } of LOOKS) {
    await page.setViewportSize(viewport)
    await page.emulateMedia({ colorScheme })
    await page.locator(colorScheme === 'dark' ? 'html.dark' : 'html:not(.dark)').waitFor()
    const found = await violations(page)
    problems.push(...found.map((text) => `${text} (${colorScheme}, ${viewport.width} px)`))
  }
  await page.emulateMedia({ colorScheme: 'light' })
  return problems
}

async function violations(page: Page): Promise<readonly string[]> {
  const { violations: found } = await new AxeBuilder({ page })
    .options({ resultTypes: ['violations'] })
    .analyze()
  return found.map(({ id, nodes }) => {
    const more = nodes.length > 1 ? ` and ${nodes.length - 1} more` : ''
    return `${id} at ${nodes[0]?.target.join(' ')}${more}`
  })
}

/**
 * Says which elements make a page wider than its window. What a box with its own scroll bar holds, such as a line
 * of code or a row of a table, makes no page wider.
 */
function tooWide(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { scrollWidth = 0, clientWidth = 0 } = document.scrollingElement ?? {}
    if (scrollWidth <= clientWidth) return []
    const isClipped = (element: Element): boolean => {
      const box = element.parentElement
      if (box === null || box === document.body) return false
      return getComputedStyle(box).overflowX !== 'visible' || isClipped(box)
    }
    const culprits = [...document.body.querySelectorAll('*')]
      .filter((element) => element.getBoundingClientRect().right > clientWidth)
      .filter((element) => !isClipped(element))
      .map(({ tagName, classList }) => [tagName.toLowerCase(), ...classList].join('.'))
    const names = [...new Set(culprits)].slice(-3).join(', ')
    return [`is ${scrollWidth} px wide in a window of ${clientWidth} px, because of ${names}`]
  })
}

/** Says which diagrams of a page show nothing. */
function emptyDiagrams(page: Page): Promise<string[]> {
  return page.evaluate(() =>
    [...document.querySelectorAll('.diagram')].flatMap((diagram, index) => {
      const { width = 0, height = 0 } = diagram.querySelector('svg')?.getBoundingClientRect() ?? {}
      const small = width > 50 && height > 50 ? [] : [`is ${width} × ${height} px`]
      const ends = [...diagram.querySelectorAll<SVGElement>('.edge')].flatMap(({ dataset }) => [
        dataset['from'] ?? '',
        dataset['to'] ?? '',
      ])
      const missing = [...new Set(ends)]
        .filter((id) => diagram.querySelector(`.node[data-id="${id}"]`) === null)
        .map((id) => `has no node ${id}`)
      return [...small, ...missing].map((problem) => `diagram ${index + 1} ${problem}`)
    }),
  )
}

async function testSearch(page: Page): Promise<readonly string[]> {
  await page.setViewportSize(WIDE)
  await page.goto(ORIGIN)
  await page.getByRole('button', { name: 'Search' }).click()
  const box = page.locator('.VPLocalSearchBox')
  const problems: string[] = []
  for (const text of SEARCHES) {
    await box.locator('input').fill('')
    await box.locator('.result').first().waitFor({ state: 'detached' }) // those of the last search
    await box.locator('input').fill(text)
    await box.locator('.result, .no-results').first().waitFor()
    if ((await box.locator('.result').count()) === 0) problems.push(`The search finds no ${text}`)
  }
  return problems
}
