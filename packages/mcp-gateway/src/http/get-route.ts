import type { HttpRoute } from './http-route.ts'

/** What is to be read there now. */
export interface Reading {
  readonly status: number
  readonly mimeType: string
  readonly body: string
}

/** Answers `GET` and `HEAD` of one path, for whoever asks; no cache keeps what it says. */
export function getRoute(path: string, read: () => Promise<Reading>): HttpRoute {
  return {
    isOpen: true,
    matches: (asked) => asked === path,
    handle: async ({ request: { method } }) => {
      if (method !== 'GET' && method !== 'HEAD') {
        return new Response(null, { status: 405, headers: { allow: 'GET, HEAD' } })
      }
      const { status, mimeType, body } = await read()
      const headers = { 'cache-control': 'no-store', 'content-type': mimeType }
      return new Response(method === 'HEAD' ? null : body, { status, headers })
    },
  }
}
