import { TransportError } from './transport-error.ts'

/** `CLOSED`: this side has closed, ended or given up what something belonged to. `url` is without query. */
export function closedError(why: string, url: string): TransportError {
  return new TransportError('CLOSED', why, { url })
}
