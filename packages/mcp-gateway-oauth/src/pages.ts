import { createHash } from 'node:crypto'

const STYLE = `
:root { color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }
body { margin: 0 auto; max-width: 36rem; padding: 2rem 1rem; overflow-wrap: anywhere }
h1 { font-size: 1.4rem; line-height: 1.3 }
dt { font-weight: 600; margin-top: 1rem }
dd { margin: 0 }
ul { margin: 0; padding-left: 1.2rem }
form { display: flex; flex-wrap: wrap; gap: .75rem; margin-top: 1.5rem }
button { font: inherit; padding: .5rem 1.5rem }
`

const HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  // `form-action`: Chrome applies it to each redirect after a form, so no form of these pages is answered with one.
  'content-security-policy': `default-src 'none'; style-src 'sha256-${sha256(STYLE)}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
}

/** Text of a page in which everything that others wrote is escaped. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/**
 * Makes HTML. Strings among the values are escaped, also for attributes in double quotes. It is not called `html`: a
 * formatter would change the style, and with it the hash.
 */
export function markup(
  fixed: TemplateStringsArray,
  ...values: readonly (string | Html | readonly Html[])[]
): Html {
  const inserted = values.map((value) => {
    if (typeof value === 'string') return escaped(value)
    return value instanceof Html ? value.text : value.map(({ text }) => text).join('')
  })
  return new Html(String.raw({ raw: fixed }, ...inserted))
}

export interface Page {
  /** @default 200 */
  readonly status?: number
  readonly title: string
  readonly body: Html
  /** Elements of the head besides the title. @default none */
  readonly head?: Html
  readonly setCookie?: string | undefined
}

/** Returns a page that runs no script, loads nothing, is not stored, and cannot be put into a frame. */
export function pageResponse({ status = 200, title, body, head, setCookie }: Page): Response {
  const { text } = markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
${head ?? ''}
<style>${new Html(STYLE)}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`
  const headers = { ...HEADERS, ...(setCookie !== undefined && { 'set-cookie': setCookie }) }
  return new Response(text, { status, headers })
}

/**
 * Returns a page that sends the browser to a URL at once. It takes the place of a redirect after a form: Chrome would
 * apply `form-action` to that redirect and to all that follow, as far as the app of the user, and stop without a message.
 */
export function leavingPage(
  url: string,
  { title, setCookie }: Pick<Page, 'title' | 'setCookie'>,
): Response {
  const { href } = new URL(url)
  return pageResponse({
    title,
    setCookie,
    head: markup`<meta http-equiv="refresh" content="0; url=${href}">`,
    body: markup`<p><a href="${href}">Continue</a> if nothing happens.</p>`,
  })
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64')
}
