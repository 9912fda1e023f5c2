import { useEffect, useRef, useState } from 'react'
import type { ReactElement } from 'react'
import type { Exchange, ExchangeDetails, MessageDetails } from '../timeline/events.ts'
import { Code } from './content.tsx'
import { formatBytes, formatDuration, formatTime, prettyBody } from './format.ts'
import { KINDS, Shape } from './diagram.tsx'

export interface DetailsDialogProps {
  readonly exchange: Exchange
  readonly load: (id: number) => Promise<ExchangeDetails>
  readonly onClose: () => void
}

/** An exchange in full: a modal dialog, so that the browser keeps the focus in it and gives it back. */
export function DetailsDialog({ exchange, load, onClose }: DetailsDialogProps): ReactElement {
  const dialog = useRef<HTMLDialogElement>(null)
  const { details, problem } = useDetails(exchange, load)
  useEffect(() => dialog.current?.showModal(), [])
  const { kind, label, from, to } = exchange
  return (
    <dialog
      ref={dialog}
      className={`details kind-${kind}`}
      aria-labelledby="details-title"
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current.close() // beside it
      }}
    >
      <header>
        <span className="kind">
          <Shape kind={kind} /> {kind}
        </span>
        <h2 className="cut" id="details-title">
          {label}
        </h2>
        <span className="spacer" />
        <button type="button" className="small" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      <div className="scroll stack">
        <p className="quiet">{`${from} → ${to}: ${KINDS.get(kind)}`}</p>
        <Facts exchange={exchange} />
        {problem !== undefined && <p className="error">{problem}</p>}
        {details !== undefined && (
          <>
            <Message title={`Request: ${exchange.httpMethod}`} message={details.request} />
            {details.response === undefined ? (
              <p className="quiet">
                There is no answer{exchange.durationMs === undefined ? ' yet' : ''}.
              </p>
            ) : (
              <Message title={`Answer: ${exchange.status ?? ''}`} message={details.response} />
            )}
          </>
        )}
      </div>
    </dialog>
  )
}

/** Loads the details, and again when the exchange goes on. */
function useDetails(
  exchange: Exchange,
  load: DetailsDialogProps['load'],
): { details?: ExchangeDetails; problem?: string } {
  const [loaded, setLoaded] = useState<{ details?: ExchangeDetails; problem?: string }>({})
  const { id, status, durationMs } = exchange
  useEffect(() => {
    let isCurrent = true
    load(id).then(
      (details) => isCurrent && setLoaded({ details }),
      (error: unknown) =>
        isCurrent && setLoaded({ problem: error instanceof Error ? error.message : String(error) }),
    )
    return () => {
      isCurrent = false
    }
  }, [load, id, status, durationMs])
  return loaded
}

function Facts({ exchange }: { exchange: Exchange }): ReactElement {
  const { startedAt, durationMs, status, problem, sessionId, revision, rpcMethod } = exchange
  const facts = {
    Status: `${status ?? 'no answer'}${problem === undefined ? '' : `, ${problem}`}`,
    Started: formatTime(startedAt),
    Took: durationMs === undefined ? 'still open' : formatDuration(durationMs),
    'JSON-RPC': rpcMethod,
    Session: sessionId ?? 'none',
    Revision: revision,
    Sent: formatBytes(exchange.requestBytes),
    Received: formatBytes(exchange.responseBytes),
  }
  return (
    <dl className="facts">
      {Object.entries(facts).map(
        ([name, value]) =>
          value !== undefined && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ),
      )}
    </dl>
  )
}

function Message({ title, message }: { title: string; message: MessageDetails }): ReactElement {
  const { headers, body, isCut } = message
  return (
    <section className="http-message stack" aria-label={title}>
      <h3>{title}</h3>
      <table>
        <tbody>
          {Object.entries(headers).map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {body === '' ? (
        <p className="quiet">No body.</p>
      ) : (
        <Code text={prettyBody(body)} label={`Body of the ${title}`} />
      )}
      {isCut && <p className="quiet">The body is longer: these are its first 64 KiB.</p>}
    </section>
  )
}
