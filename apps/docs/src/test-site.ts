// Opens the built site in Chromium. Its files are answered from the folder, and no other address is reachable:
// the site must need no network.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { startChromium } from '../../playground/test/chromium.ts'
import { entriesOf, groups, INDEX, siteAddress, sitePages } from './pages.ts'

const ORIGIN = 'http://site.example'
const WIDE = { width: 1280, height: 800 }
const NARROW = { width: 380, height: 780 }
const THEMES = ['light', 'dark'] as const
const API_PAGES = ['/api/', '/api/mcp-client/', '/api/mcp-client/classes/McpClient']

/** Returns a sentence for each problem of the site in a folder. */
export async function testSite(folder: string): Promise<readonly string[]> {
  if (!existsSync(join(folder, 'index.html'))) return ['Build the site first: pnpm run docs']
  const browser = await startChromium()
  if (browser === undefined) return [] // it has said so
  const problems: string[] = []
  const open = (options: BrowserContextOptions): Promise<Page> =>
    openOffline({ browser, folder, problems }, options)
  /** Opens a page. Returns false if it cannot be opened, and adds a problem. */
  const arrives = async (page: Page, address: string): Promise<boolean> => {
    try {
      await page.goto(ORIGIN + address)
      return true
    } catch (error) {
      problems.push(`${address} cannot be opened: ${String(error).split('\n')[0]}`)
      return false
    }
  }
  try {
    for (const viewport of [WIDE, NARROW]) {
      for (const colorScheme of THEMES) {
        const page = await open({ viewport, colorScheme })
        for (const address of pagesOfEachKind()) {
          if (!(await arrives(page, address))) continue
          const found = await violations(page)
          problems.push(
            ...found.map((text) => `${address} (${colorScheme}, ${viewport.width} px): ${text}`),
          )
        }
        await page.context().close()
      }
    }
    const narrow = await open({ viewport: NARROW })
    const all = [...sitePages().map(siteAddress), ...API_PAGES]
    for (const address of all) {
      if (!(await arrives(narrow, address))) continue
      const wide = await widest(narrow)
      if (wide !== undefined) problems.push(`${address} is wider than 380 px: ${wide}`)
    }
    const searching = await open({ viewport: WIDE })
    await searching.goto(ORIGIN)
    await searching.getByRole('button', { name: 'Search' }).click()
    await searching.keyboard.type('OUTCOME_UNKNOWN')
    await searching.locator('.VPLocalSearchBox .result').first().waitFor()
    console.log(
      `${all.length} pages were opened, ${pagesOfEachKind().length} of them tested by axe`,
    )
  } finally {
    await browser.close()
  }
  return problems
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
  /** What goes wrong in pages is added here. */
  readonly problems: string[]
}

async function openOffline(
  { browser, folder, problems }: Site,
  options: BrowserContextOptions,
): Promise<Page> {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options })
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

async function violations(page: Page): Promise<readonly string[]> {
  const { violations: found } = await new AxeBuilder({ page }).analyze()
  return found.map(({ id, nodes }) => `${id}, ${nodes.length} times: ${nodes[0]?.html}`)
}

/** Returns the widest element of a page that can be scrolled to the side, or `undefined`. */
function widest(page: Page): Promise<string | undefined> {
  return page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    if (scrollWidth <= clientWidth) return undefined
    const elements = [...document.querySelectorAll('.vp-doc *')].map((element) => ({
      html: element.outerHTML.slice(0, 120),
      right: element.getBoundingClientRect().right,
    }))
    return (
      elements.toSorted((one, other) => other.right - one.right)[0]?.html ?? `${scrollWidth} px`
    )
  })
}
