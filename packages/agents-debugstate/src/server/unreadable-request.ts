import type { Duplex } from 'node:stream'
import { PROBLEM_HEADERS, problemBody } from './problem.ts'
import type { Problem } from './problem.ts'

/**
 * Answers what Node could not read as a request, or not in time, in the form of all other errors, and ends
 * the connection. `error` is that of the event `clientError`.
 */
export function refuseUnreadable(error: Error, socket: Duplex): void {
  if (!socket.writable) {
    socket.destroy()
    return
  }
  const problem = problemFrom(error)
  const body = JSON.stringify(problem)
  const head = [
    `HTTP/1.1 ${problem.status} ${problem.title}`,
    ...Object.entries(PROBLEM_HEADERS).map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

function problemFrom(error: Error): Problem {
  switch ('code' in error ? error.code : undefined) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return problemBody('REQUEST_TIMEOUT', 'The request took too long to arrive')
    case 'HPE_HEADER_OVERFLOW':
      return problemBody('HEADERS_TOO_LARGE', 'Request line and headers have at most 16 KiB')
    default:
      return problemBody('BAD_REQUEST', 'This is not a request of HTTP/1.1')
  }
}
