// The frame of every page: navigation, connection, the page itself, dialog and tray.
import { useEffect, useRef, type ReactNode } from 'react';
import { Menu, MenuItem, MenuTrigger, Popover } from 'react-aria-components';
import { connection } from './api/live';
import { leave, session } from './api/session';
import { OwnPassword } from './dialogs/access';
import { Access } from './pages/access';
import { Clients } from './pages/clients';
import { Dashboard } from './pages/dashboard';
import { DatabasePage } from './pages/database';
import { Databases } from './pages/databases';
import { Drives } from './pages/drives';
import { Events } from './pages/events';
import { Hosts } from './pages/hosts';
import { Jobs } from './pages/jobs';
import { LabResultPage, LabResults } from './pages/lab';
import { Settings } from './pages/settings';
import { SignIn } from './pages/sign-in';
import { Snapshots } from './pages/snapshots';
import { VolumePage } from './pages/volume';
import { Volumes } from './pages/volumes';
import { useNow } from './state/clock';
import { openDialog } from './state/dialog';
import { nameOf, who } from './state/rights';
import { Link, navigate, path, usePath } from './state/router';
import { useStore } from './state/store';
import { Button, Page } from './ui/basics';
import { DialogHost } from './ui/dialog';
import { duration, shortTime } from './ui/format';
import { Icon, type IconName } from './ui/icons';
import { MenuHost } from './ui/menu';
import { Tray } from './ui/tray';

interface Place {
  to: string;
  label: string;
  icon: IconName;
}

const PLACES: Place[] = [
  { to: '/', label: 'Dashboard', icon: 'dashboard' },
  { to: '/databases', label: 'Databases', icon: 'databases' },
  { to: '/volumes', label: 'Volumes', icon: 'volumes' },
  { to: '/drives', label: 'Drives', icon: 'drives' },
  { to: '/snapshots', label: 'Snapshots', icon: 'snapshots' },
  { to: '/events', label: 'Events', icon: 'events' },
  { to: '/jobs', label: 'Jobs', icon: 'jobs' },
  { to: '/lab', label: 'Lab', icon: 'lab' },
  { to: '/hosts', label: 'Hosts and exports', icon: 'hosts' },
  { to: '/clients', label: 'Clients and doors', icon: 'clients' },
  { to: '/settings', label: 'Settings', icon: 'settings' },
];
/// So many stand at the bottom of a narrow screen; the others are behind "More".
const AT_BOTTOM = 4;

function pageOf([first, second]: string[]): ReactNode {
  if (first === undefined || first === 'index.html') return <Dashboard />;
  if (first === 'databases') return second ? <DatabasePage key={second} name={second} /> : <Databases />;
  if (first === 'volumes') return second ? <VolumePage key={second} name={second} /> : <Volumes />;
  if (first === 'drives') return <Drives />;
  if (first === 'snapshots') return <Snapshots tab={second === 'schedules' ? 'schedules' : 'snapshots'} />;
  if (first === 'events') return <Events />;
  if (first === 'jobs') return <Jobs />;
  if (first === 'lab') return second ? <LabResultPage key={second} name={second} /> : <LabResults />;
  if (first === 'hosts') return <Hosts />;
  if (first === 'clients') return <Clients />;
  if (first === 'settings') return second === 'access' ? <Access /> : <Settings />;
  return (
    <Page title="Not found">
      <p>
        There is no such page. <Link to="/">To the dashboard</Link>
      </p>
    </Page>
  );
}

export function App() {
  const now = useStore(session);
  if (now.state !== 'in') return <SignIn session={now} />;
  return <Frame />;
}

function Frame() {
  const parts = usePath();
  const main = useRef<HTMLElement>(null);
  const isFirst = useRef(true);
  const where = useStore(path);
  // Who cannot see the page hears where they are after a change of it.
  useEffect(() => {
    if (!isFirst.current) main.current?.focus({ preventScroll: true });
    isFirst.current = false;
  }, [where]);
  const isAt = (place: Place) => `/${parts[0] ?? ''}` === place.to;
  return (
    <div className="frame">
      <a className="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        To the content
      </a>
      <aside className="side">
        <Link to="/" className="brand">
          <Logo /> Ashlar
        </Link>
        <nav aria-label="Pages">
          {PLACES.map((place) => (
            <Link key={place.to} to={place.to} aria-current={isAt(place) ? 'page' : undefined}>
              <Icon name={place.icon} /> {place.label}
            </Link>
          ))}
        </nav>
        <WhoMenu />
        <ConnectionLine />
      </aside>
      <div className="top">
        <Link to="/" className="brand">
          <Logo /> Ashlar
        </Link>
        <span className="spring" />
        <WhoMenu isNarrow />
        <ConnectionLine />
      </div>
      <main ref={main} id="main" tabIndex={-1}>
        <Broken />
        {pageOf(parts)}
      </main>
      <nav className="bottom" aria-label="Pages, narrow">
        {PLACES.slice(0, AT_BOTTOM).map((place) => (
          <Link key={place.to} to={place.to} aria-current={isAt(place) ? 'page' : undefined}>
            <Icon name={place.icon} /> {place.label}
          </Link>
        ))}
        <MoreMenu isHere={PLACES.slice(AT_BOTTOM).some(isAt)} />
      </nav>
      <MenuHost />
      <DialogHost />
      <Tray />
    </div>
  );
}

/// Who is signed in, with what one may do about it.
function WhoMenu({ isNarrow }: { isNarrow?: boolean }) {
  const me = useStore(who);
  if (!me) return null;
  const name = nameOf(me);
  const act = (key: string) => {
    if (key === 'leave') return leave();
    if (key === 'password') return openDialog(<OwnPassword />);
    return navigate('/settings/access');
  };
  return (
    <MenuTrigger>
      <Button className="who" tone="quiet" aria-label={`${name}, ${me.role}: account`}>
        <span className="strong">{name}</span>
        <span className="sub">{me.role}</span>
      </Button>
      <Popover className="popover" placement={isNarrow ? 'bottom end' : 'top start'}>
        <Menu className="list-box" aria-label="Account" onAction={(key) => act(String(key))}>
          {me.user ? (
            <MenuItem id="password" textValue="Change your password" className="option">
              Change your password…
            </MenuItem>
          ) : null}
          <MenuItem id="access" textValue="Users and tokens" className="option">
            Users and tokens
          </MenuItem>
          <MenuItem id="leave" textValue="Sign out" className="option">
            Sign out
          </MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

function MoreMenu({ isHere }: { isHere: boolean }) {
  return (
    <MenuTrigger>
      <Button className={isHere ? 'more here' : 'more'} icon="more">
        More
      </Button>
      <Popover className="popover" placement="top end">
        <Menu className="list-box" aria-label="More pages" onAction={(key) => navigate(String(key))}>
          {PLACES.slice(AT_BOTTOM).map((place) => (
            <MenuItem key={place.to} id={place.to} textValue={place.label} className="option with-icon">
              <Icon name={place.icon} /> {place.label}
            </MenuItem>
          ))}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

function Logo() {
  return (
    <svg className="logo" viewBox="0 0 20 17" aria-hidden="true" focusable="false">
      <path className="logo-a" d="M0 0h9.500v7.500H0zM10.500 9H20v7.500h-9.500z" />
      <path className="logo-b" d="M10.500 0H20v7.500h-9.500zM0 9h9.500v7.500H0z" />
    </svg>
  );
}

function ConnectionLine() {
  const { state } = useStore(connection);
  const words = { connecting: 'connecting', connected: 'live', broken: 'no connection' };
  return (
    <div className={`connection ${state}`}>
      <span className="dot" aria-hidden="true" /> {words[state]}
    </div>
  );
}

function Broken() {
  const { state, brokenSinceMillis } = useStore(connection);
  const now = useNow();
  if (state !== 'broken' || !brokenSinceMillis) return null;
  return (
    <div className="notice tone-warn broken" role="status">
      <Icon name="warning" />
      <div>
        No connection since {shortTime(brokenSinceMillis)} (
        {duration(Math.max(0, Math.floor((now - brokenSinceMillis) / 1000)))}). Figures are of that time; the page
        tries again by itself. If it stays so, look on the machine of the array whether <code>ashlar serve</code> runs.
      </div>
    </div>
  );
}
