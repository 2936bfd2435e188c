// All databases, each with its clones below it.
import type { KeyboardEvent, ReactNode, SyntheticEvent } from 'react';
import { Button as AriaButton, Collection, Tree, TreeItem, TreeItemContent } from 'react-aria-components';
import { useGet } from '../api/resource';
import type { Database, Snapshot } from '../api/types';
import { CreateDatabase, databaseActions, goTo, snapshotsOf } from '../dialogs/database';
import { openDialog } from '../state/dialog';
import { denied, refused } from '../state/rights';
import { Link, to } from '../state/router';
import { useStore } from '../state/store';
import { ActionButton, Badge, Empty, Failure, Loading, Page, Progress, Time } from '../ui/basics';
import { bytes, plural } from '../ui/format';
import { Icon } from '../ui/icons';
import { ActionMenu } from '../ui/menu';
import { DatabaseBadge, Proof } from './states';

export interface Node {
  id: string;
  database: Database;
  clones: Node[];
}

/// Each database below the one it was cloned from; what was cloned from one that is gone stands by itself.
export function treeOf(databases: readonly Database[]): Node[] {
  const nodes = new Map(databases.map((one) => [one.name, { id: one.name, database: one, clones: [] } as Node]));
  const roots: Node[] = [];
  for (const node of nodes.values()) {
    const origin = nodes.get(node.database.origin?.database ?? '');
    (origin && origin !== node ? origin.clones : roots).push(node);
  }
  return roots;
}

export function Databases() {
  const { data: databases, error } = useGet('/v1/databases', undefined, 5);
  const snapshots = useGet('/v1/snapshots').data ?? [];
  const pools = useGet('/v1/pools').data;
  useStore(refused);
  const noPool = pools?.length === 0 ? 'There is no pool yet.' : null;
  const create = (
    <ActionButton
      tone="primary"
      icon="plus"
      refusal={denied('database_create') ?? noPool}
      onPress={() => openDialog(<CreateDatabase />)}
    >
      Create
    </ActionButton>
  );
  return (
    <Page title="Databases" lead={databases && plural(databases.length, 'database')} actions={create}>
      {error && <Failure error={error} />}
      {!databases && !error && <Loading what="Asking for the databases" />}
      {databases?.length === 0 && (
        <Empty title="No database yet" command="ashlar database create prod --size 64GiB">
          A database is a PostgreSQL server on volumes of the array. It is cloned in about a second, at no space.
          <code>ashlar database import</code> brings in one that you have.
        </Empty>
      )}
      {databases && databases.length > 0 && <DatabaseTree databases={databases} snapshots={snapshots} />}
    </Page>
  );
}

function DatabaseTree({ databases, snapshots }: { databases: Database[]; snapshots: Snapshot[] }) {
  const row = (node: Node) => (
    <TreeItem id={node.id} textValue={node.id} className="tree-item">
      <TreeItemContent>
        {({ level, isExpanded }) => (
          <div className="tree-row" style={{ paddingInlineStart: `${(level - 1) * 26}px` }}>
            {node.clones.length > 0 ? (
              <AriaButton slot="chevron" className={isExpanded ? 'chevron open' : 'chevron'}>
                <Icon name="right" />
              </AriaButton>
            ) : (
              <span className={level > 1 ? 'chevron twig' : 'chevron'} aria-hidden="true" />
            )}
            <Row node={node} databases={databases} snapshots={snapshots} />
          </div>
        )}
      </TreeItemContent>
      <Collection items={node.clones} dependencies={[databases, snapshots]}>
        {row}
      </Collection>
    </TreeItem>
  );
  return (
    <Tree
      aria-label="Databases and their clones"
      className="tree"
      items={treeOf(databases)}
      dependencies={[databases, snapshots]}
      defaultExpandedKeys={databases.map(({ name }) => name)}
      onAction={(key) => goTo(String(key))}
    >
      {row}
    </Tree>
  );
}

/// What is pressed in here is not pressed for the whole row, which leads to the database.
function Alone({ children }: { children: ReactNode }) {
  const stop = (event: SyntheticEvent) => event.stopPropagation();
  const stopKeys = (event: KeyboardEvent) => (event.key === 'Enter' || event.key === ' ') && event.stopPropagation();
  return (
    <span onPointerDown={stop} onMouseDown={stop} onClick={stop} onKeyDown={stopKeys} onKeyUp={stopKeys}>
      {children}
    </span>
  );
}

function Row({ node, databases, snapshots }: { node: Node; databases: Database[]; snapshots: Snapshot[] }) {
  const { database, clones } = node;
  const own = snapshotsOf(database, snapshots);
  const { progress, standby, expires_unix_seconds: expires } = database;
  return (
    <>
      <div className="tree-name">
        <Alone>
          <Link to={to.database(database.name)} className="strong">
            {database.name}
          </Link>
        </Alone>{' '}
        <DatabaseBadge database={database} />
        {standby && <Badge tone="busy">standby, {bytes(standby.lag_bytes)} behind</Badge>}
        <div className="sub">
          PostgreSQL {database.major_version}, port {database.port}
          {clones.length > 0 && <>, {plural(clones.length, 'clone')}</>}
          {expires && (
            <>
              , deleted <Time seconds={expires} />
            </>
          )}
        </div>
        {progress && (
          <Progress
            label={progress.stage}
            share={progress.total_bytes > 0 ? progress.done_bytes / progress.total_bytes : undefined}
          />
        )}
      </div>
      <div className="tree-facts">
        {own.length === 0 && 'no snapshot'}
        {own[0] && (
          <>
            <div>
              {plural(own.length, 'snapshot')}, newest <Time seconds={own[0].created_unix_seconds} />
            </div>
            <Proof proof={database.proofs?.[0]} />
          </>
        )}
      </div>
      <Alone>
        <ActionMenu
          of={`database ${database.name}`}
          actions={() => databaseActions(database, { all: databases, snapshots })}
        />
      </Alone>
    </>
  );
}
